// A warp computes a row of up to kWarpRow numbers, a block a longer one. The gradients of w and c
// sum over rows: a block takes several, the sums of its warps are added in their order, and a
// second kernel adds up what the blocks found, in theirs.
#include "sigma1/ops/norm.h"

#include <algorithm>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/reduce.cuh"

namespace sigma1::cuda {
namespace {

constexpr int64_t kWarpRow = 1024;  // numbers
constexpr int kWarps = 4;           // of a block whose warps have rows of their own

// The threads that share a row: which of them this is, and sums over them that all of them get.
struct Warp {
  __device__ static int thread() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int threads() { return 32; }
  __device__ static int row() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int rows() { return kWarps; }
  __device__ static float sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
    return value;
  }
};

struct Block {
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int threads() { return static_cast<int>(blockDim.x); }
  __device__ static int row() { return 0; }
  __device__ static int rows() { return 1; }
  __device__ static float sum(float value) { return block_sum(value); }
};

struct NormRow {
  float mean, inverse_scale;

  __device__ float xhat(float x) const { return (x - mean) * inverse_scale; }
};

// Calls body(column) for the columns of this thread: the same ones in every row.
template <class Team, class Body>
__device__ void for_columns(int64_t n, Body body) {
#pragma unroll 4
  for (int64_t column = Team::thread(); column < n; column += Team::threads()) body(column);
}

template <class Team, class Term>
__device__ float row_sum(int64_t n, Term term) {
  float sum = 0;
  for_columns<Team>(n, [&](int64_t column) { sum += term(column); });
  return Team::sum(sum);
}

template <class Team, bool centred>
__device__ NormRow norm_row(const View& x, int64_t first, int64_t n, float eps) {
  auto count = static_cast<float>(n);
  float mean = 0;
  if (centred) mean = row_sum<Team>(n, [&](int64_t j) { return load(x, first + j); }) / count;
  // Around the mean rather than E[x²] − μ², which loses digits.
  float square = row_sum<Team>(n, [&](int64_t j) {
    float difference = load(x, first + j) - mean;
    return difference * difference;
  });
  return {mean, 1 / sqrtf(square / count + eps)};
}

// Without data where an input is left out.
struct NormArguments {
  View x, w, c, dy, y;  // y: or dx
  int64_t n, rows;
  float eps, factor;
};

// The one that this thread works on.
template <class Team>
__device__ int64_t team_row() {
  return int64_t{blockIdx.x} * Team::rows() + Team::row();
}

template <class Team, bool centred>
__global__ void normalise(NormArguments a) {
  if (team_row<Team>() >= a.rows) return;
  int64_t first = team_row<Team>() * a.n;
  NormRow row = norm_row<Team, centred>(a.x, first, a.n, a.eps);
  for_columns<Team>(a.n, [&](int64_t j) {
    float value = row.xhat(load(a.x, first + j));
    if (a.w.data) value *= load(a.w, j);
    if (a.c.data) value += load(a.c, j);
    store(a.y, first + j, value * a.factor);
  });
}

template <class Team, bool centred>
__global__ void norm_grad(NormArguments a) {
  if (team_row<Team>() >= a.rows) return;
  int64_t first = team_row<Team>() * a.n;
  NormRow row = norm_row<Team, centred>(a.x, first, a.n, a.eps);
  auto xhat = [&](int64_t j) { return row.xhat(load(a.x, first + j)); };
  auto dxhat = [&](int64_t j) {
    return a.w.data ? load(a.dy, first + j) * load(a.w, j) : load(a.dy, first + j);
  };
  auto count = static_cast<float>(a.n);
  float mean = centred ? row_sum<Team>(a.n, dxhat) / count : 0;
  float along = row_sum<Team>(a.n, [&](int64_t j) { return dxhat(j) * xhat(j); }) / count;
  float outer = a.factor * row.inverse_scale;
  // dx may lie where an input does: each column is read before it is written.
  for_columns<Team>(a.n, [&](int64_t j) {
    float dx = outer * (dxhat(j) - mean - xhat(j) * along);
    store(a.y, first + j, dx);
  });
}

using RowKernel = void (*)(NormArguments);

void launch_rows(const char* what, RowKernel of_warps, RowKernel of_blocks,
                 const NormArguments& arguments) {
  if (arguments.rows == 0) return;
  if (arguments.n <= kWarpRow) {
    auto blocks = static_cast<unsigned>((arguments.rows + kWarps - 1) / kWarps);
    of_warps<<<blocks, kWarps * 32, 0, stream()>>>(arguments);
  } else {
    auto blocks = static_cast<unsigned>(arguments.rows);
    of_blocks<<<blocks, row_threads(arguments.n), 0, stream()>>>(arguments);
  }
  check(cudaGetLastError(), what);
}

NormArguments arguments_of(const Launch& launch) {
  int64_t n = launch.in(0).shape.back();
  return {.x = view_of(launch.in(0)),
          .w = View{},
          .c = View{},
          .dy = View{},
          .y = view_of(launch.out()),
          .n = n,
          .rows = launch.in(0).count() / n,
          .eps = static_cast<float>(launch.attr<double>("eps")),
          .factor = launch.factor()};
}

template <bool centred>
void run_norm(const Launch& launch) {
  NormArguments arguments = arguments_of(launch);
  if (launch.inputs.size() > 1) arguments.w = view_of(launch.in(1));
  if (launch.inputs.size() > 2) arguments.c = view_of(launch.in(2));
  launch_rows("norm", normalise<Warp, centred>, normalise<Block, centred>, arguments);
}

template <bool centred>
void run_norm_grad(const Launch& launch) {
  NormArguments arguments = arguments_of(launch);
  if (launch.inputs.size() > 2) arguments.w = view_of(launch.in(1));
  arguments.dy = view_of(launch.inputs.back());
  launch_rows("norm_grad", norm_grad<Warp, centred>, norm_grad<Block, centred>, arguments);
}

// How the rows are cut for sums over them, by their number alone.
struct Cut {
  explicit Cut(const Launch& launch) {
    constexpr int64_t kMostBlocks = 132;  // one of each multiprocessor
    n = launch.in(0).shape.back();
    rows = launch.in(0).count() / n;
    each = std::max<int64_t>(1, (rows + kMostBlocks - 1) / kMostBlocks);
    blocks = (rows + each - 1) / each;
    columns = static_cast<int64_t>(launch.outputs.size());
  }
  int64_t n, rows, each, blocks;
  int64_t columns;  // dw, or dw and dc
};

struct SumArguments {
  View x, dy;
  float* sums;  // [blocks, columns, n]
  int64_t n, rows, each, columns;
  float eps;
};

// The rows of this team of its block's, into dw[n], and dc[n] behind it.
template <class Team, bool centred>
__device__ void sum_rows(const SumArguments& a, float* sums) {
  float* dc = a.columns > 1 ? sums + a.n : nullptr;
  for_columns<Team>(a.n, [&](int64_t j) {
    sums[j] = 0;
    if (dc) dc[j] = 0;
  });
  int64_t begin = int64_t{blockIdx.x} * a.each, end = begin + a.each;
  if (end > a.rows) end = a.rows;
  for (int64_t row = begin + Team::row(); row < end; row += Team::rows()) {
    int64_t first = row * a.n;
    NormRow of = norm_row<Team, centred>(a.x, first, a.n, a.eps);
    for_columns<Team>(a.n, [&](int64_t j) {
      float dy = load(a.dy, first + j);
      sums[j] += dy * of.xhat(load(a.x, first + j));
      if (dc) dc[j] += dy;
    });
  }
}

template <bool centred>
__global__ void sum_by_warps(SumArguments a) {
  extern __shared__ float of_warps[];  // [kWarps, columns, n]
  int64_t count = a.columns * a.n;
  sum_rows<Warp, centred>(a, of_warps + Warp::row() * count);
  __syncthreads();
  for_columns<Block>(count, [&](int64_t j) {
    float sum = of_warps[j];
    for (int warp = 1; warp < kWarps; ++warp) sum += of_warps[warp * count + j];
    a.sums[int64_t{blockIdx.x} * count + j] = sum;
  });
}

// A thread adds to the same columns in every row, and to none of another thread's.
template <bool centred>
__global__ void sum_by_blocks(SumArguments a) {
  float* sums = a.sums + int64_t{blockIdx.x} * a.columns * a.n;
  sum_rows<Block, centred>(a, sums);
}

constexpr int kColumns = 32, kParts = 8;  // of a block: a thread sums every kParts-th of a column

__global__ void add_blocks(const float* sums, int64_t step, int64_t blocks, int64_t n, View to,
                           float factor) {
  __shared__ float parts[kParts][kColumns];
  int64_t column = int64_t{blockIdx.x} * kColumns + threadIdx.x;
  float sum = 0;
  if (column < n) {
    for (int64_t block = threadIdx.y; block < blocks; block += kParts) {
      sum += sums[block * step + column];
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
  for (int part = 1; part < kParts; ++part) sum += parts[part][threadIdx.x];
  store(to, column, sum * factor);
}

void add_columns(const Launch& launch, const Cut& cut, const float* sums) {
  auto blocks = static_cast<unsigned>((cut.n + kColumns - 1) / kColumns);
  for (size_t output = 0; output < launch.outputs.size(); ++output) {
    add_blocks<<<blocks, dim3(kColumns, kParts), 0, stream()>>>(
        sums + static_cast<int64_t>(output) * cut.n, cut.columns * cut.n, cut.blocks, cut.n,
        view_of(launch.out(output)), launch.factor(output));
    check(cudaGetLastError(), "norm_weight_grad: columns");
  }
}

int64_t norm_weight_grad_workspace(const Launch& launch) {
  Cut cut(launch);
  return cut.blocks * cut.columns * cut.n * static_cast<int64_t>(sizeof(float));
}

template <bool centred>
void run_norm_weight_grad(const Launch& launch) {
  Cut cut(launch);
  auto* sums = reinterpret_cast<float*>(launch.workspace.data());
  if (cut.rows > 0) {
    SumArguments arguments{.x = view_of(launch.in(0)),
                           .dy = view_of(launch.in(1)),
                           .sums = sums,
                           .n = cut.n,
                           .rows = cut.rows,
                           .each = cut.each,
                           .columns = cut.columns,
                           .eps = static_cast<float>(launch.attr<double>("eps"))};
    auto blocks = static_cast<unsigned>(cut.blocks);
    if (cut.n <= kWarpRow) {
      auto bytes = static_cast<size_t>(kWarps * cut.columns * cut.n) * sizeof(float);
      sum_by_warps<centred><<<blocks, kWarps * 32, bytes, stream()>>>(arguments);
    } else {
      sum_by_blocks<centred><<<blocks, row_threads(cut.n), 0, stream()>>>(arguments);
    }
    check(cudaGetLastError(), "norm_weight_grad");
  }
  add_columns(launch, cut, sums);
}

bool x_to_y(size_t input, size_t output) { return input == 0 && output == 0; }
// Also where w lay: it has the size of dx only when there is one row.
bool to_dx(size_t, size_t output) { return output == 0; }

constexpr Kernel kKernels[] = {
    {&layer_norm_op, run_norm<true>, nullptr, x_to_y},
    {&rms_norm_op, run_norm<false>, nullptr, x_to_y},
    {&layer_norm_grad_op, run_norm_grad<true>, nullptr, to_dx},
    {&rms_norm_grad_op, run_norm_grad<false>, nullptr, to_dx},
    {&layer_norm_weight_grad_op, run_norm_weight_grad<true>, norm_weight_grad_workspace},
    {&rms_norm_weight_grad_op, run_norm_weight_grad<false>, norm_weight_grad_workspace},
};

}  // namespace

std::span<const Kernel> norm_kernels() { return kKernels; }

}  // namespace sigma1::cuda
