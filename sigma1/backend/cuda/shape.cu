// Ops that only move numbers, as two walks; a transpose of the last axis goes square by square
// through shared memory, so that both sides are touched in order.
#include "sigma1/ops/shape.h"

#include <type_traits>

#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/move.cuh"

namespace sigma1::cuda {
namespace {

using Axes = std::vector<int64_t>;
using cpu::Planes;

void run_reshape(const Launch& launch) {
  bool stays = launch.in(0).data == launch.out().data;
  if (stays && moves_codes(launch, 0, 0)) return;
  int64_t count = launch.out().count();
  move(launch, 0, 0, in_order(count), in_order(count), count);
}

bool anywhere(size_t, size_t) { return true; }

constexpr int kSide = 32, kRowsAtOnce = 8;

__host__ __device__ constexpr int64_t squares_along(int64_t size) {
  return (size + kSide - 1) / kSide;
}

// Blocks of kSide × kRowsAtOnce threads, which go through a square in its rows and then in its
// columns.
template <class Copier>
__global__ void transpose_squares(const __grid_constant__ Copier copier,
                                  const __grid_constant__ Planes planes, int64_t squares) {
  __shared__ typename Copier::Element room[kSide][kSide + 1];
  int64_t across = squares_along(planes.columns), down = squares_along(planes.rows);
  for (int64_t square = blockIdx.x; square < squares; square += gridDim.x) {
    int64_t column = square % across * kSide, row = square / across % down * kSide;
    int64_t outside = square / across / down;
    int64_t from = place(planes.outer, outside) + column * planes.column_step + row;
    int64_t to = place(planes.outer_outputs, outside) + row * planes.row_step + column;
    for (int c = threadIdx.y; c < kSide; c += kRowsAtOnce) {
      int r = threadIdx.x;
      if (column + c >= planes.columns || row + r >= planes.rows) continue;
      room[c][r] = copier.read(from + c * planes.column_step + r);
    }
    __syncthreads();
    for (int r = threadIdx.y; r < kSide; r += kRowsAtOnce) {
      int c = threadIdx.x;
      if (column + c >= planes.columns || row + r >= planes.rows) continue;
      copier.write(to + r * planes.row_step + c, room[c][r]);
    }
    __syncthreads();
  }
}

void run_transpose(const Launch& launch) {
  Layout layout = cpu::transpose_layout(launch.in(0).shape, launch.attr<Axes>("order"));
  int64_t count = launch.out().count();
  if (layout.run_stride() == 1) return move(launch, 0, 0, {layout}, in_order(count), count);
  Planes planes(layout);
  int64_t squares =
      planes.outer.count() * squares_along(planes.columns) * squares_along(planes.rows);
  dim3 threads(kSide, kRowsAtOnce);
  auto blocks = static_cast<unsigned>(std::min<int64_t>(squares, 1 << 20));
  with_copier(launch, 0, 0, [&]<class Copier>(const Copier& copier) {
    transpose_squares<<<blocks, threads, 0, stream()>>>(copier, planes, squares);
  });
  check(cudaGetLastError(), "transpose");
}

size_t part_axis(const Launch& launch) {
  return cpu::from_front(launch.attr<int64_t>("axis"), launch.in(0).shape);
}

// The elements of `part`, in their order, within `whole`, where they lie from `begin` on along the
// axis.
Walk part_in_whole(const Shape& part, const Shape& whole, size_t axis, int64_t begin) {
  int64_t inner = cpu::step_along(whole, axis), row = part[axis] * inner;
  Walk walk;
  walk.layout.push(element_count(part) / row, whole[axis] * inner);
  walk.layout.push(row, 1);
  walk.base = begin * inner;
  return walk;
}

void take_part(const Launch& launch, size_t o, int64_t begin) {
  const Buffer& part = launch.out(o);
  Walk from = part_in_whole(part.shape, launch.in(0).shape, part_axis(launch), begin);
  move(launch, 0, o, from, in_order(part.count()), part.count());
}

void put_part(const Launch& launch, size_t input, int64_t begin) {
  const Buffer& part = launch.in(input);
  Walk to = part_in_whole(part.shape, launch.out().shape, part_axis(launch), begin);
  move(launch, input, 0, in_order(part.count()), to, part.count());
}

void run_slice(const Launch& launch) { take_part(launch, 0, launch.attr<int64_t>("begin")); }

void run_split(const Launch& launch) {
  int64_t size = launch.out().shape[part_axis(launch)];
  for (size_t o = 0; o < launch.outputs.size(); ++o) {
    take_part(launch, o, static_cast<int64_t>(o) * size);
  }
}

// Rows of an output that have a part of an input's within zeros.
struct Padding {
  int64_t begin, part, row;  // where it begins, its length, and the whole row's
};

template <class Copier>
__global__ void pad(const __grid_constant__ Copier copier, const Padding p, int64_t count) {
  int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    int64_t row = i / p.row, at = i - row * p.row - p.begin;
    bool inside = 0 <= at && at < p.part;
    copier.write(i, inside ? copier.read(row * p.part + at) : typename Copier::Element{});
  }
}

void run_unslice(const Launch& launch) {
  const Shape &whole = launch.out().shape, &part = launch.in(0).shape;
  size_t axis = part_axis(launch);
  int64_t inner = cpu::step_along(whole, axis), count = launch.out().count();
  Padding p{launch.attr<int64_t>("begin") * inner, part[axis] * inner, whole[axis] * inner};
  int64_t size = unit_size(launch, 0, 0);
  auto run = [&]<class Copier>(const Copier& copier) {
    launch_kernel("unslice", pad<Copier>, {blocks_for(count), kThreads}, copier, p, count);
  };
  if (size > 1 && p.begin % size == 0 && p.part % size == 0 && p.row % size == 0) {
    p = {p.begin / size, p.part / size, p.row / size};
    count /= size;
    with_unit_copier(launch, 0, 0, run);
  } else {
    with_copier(launch, 0, 0, run);
  }
}

// Rows of two inputs, each as one row: of `first` and `second` elements.
template <class Copier>
__global__ void join(const __grid_constant__ Copier a, const __grid_constant__ Copier b,
                     int64_t first, int64_t second, int64_t count) {
  int64_t stride = int64_t{gridDim.x} * blockDim.x, whole = first + second;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    int64_t row = i / whole, at = i - row * whole;
    a.write(i, at < first ? a.read(row * first + at) : b.read(row * second + at - first));
  }
}

// Two inputs whose numbers are brought over in the same way.
void join_two(const Launch& launch) {
  size_t axis = part_axis(launch);
  int64_t inner = cpu::step_along(launch.out().shape, axis), count = launch.out().count();
  int64_t first = launch.in(0).shape[axis] * inner, second = launch.in(1).shape[axis] * inner;
  int64_t size = std::min(unit_size(launch, 0, 0), unit_size(launch, 1, 0));
  auto run = [&]<class A, class B>(const A& a, const B& b) {
    if constexpr (std::is_same_v<A, B>) {
      launch_kernel("concat", join<A>, {blocks_for(count), kThreads}, a, b, first, second, count);
    }
  };
  if (size > 1 && first % size == 0 && second % size == 0) {
    first /= size;
    second /= size;
    count /= size;
    with_unit_copier(launch, 0, 0, [&](const auto& a) {
      with_unit_copier(launch, 1, 0, [&](const auto& b) { run(a, b); });
    });
  } else {
    with_copier(launch, 0, 0, [&](const auto& a) {
      with_copier(launch, 1, 0, [&](const auto& b) { run(a, b); });
    });
  }
  check(cudaGetLastError(), "concat");
}

void run_concat(const Launch& launch) {
  if (launch.inputs.size() == 2 && moves_codes(launch, 0, 0) == moves_codes(launch, 1, 0)) {
    return join_two(launch);
  }
  size_t axis = part_axis(launch);
  int64_t begin = 0;
  for (size_t i = 0; i < launch.inputs.size(); ++i) {
    put_part(launch, i, begin);
    begin += launch.in(i).shape[axis];
  }
}

constexpr Kernel kKernels[] = {{&reshape_op, run_reshape, nullptr, anywhere},
                               {&transpose_op, run_transpose},
                               {&slice_op, run_slice},
                               {&unslice_op, run_unslice},
                               {&concat_op, run_concat},
                               {&split_op, run_split}};

}  // namespace

std::span<const Kernel> shape_kernels() { return kKernels; }

}  // namespace sigma1::cuda
