#include "sigma1/ops/shape.h"

#include <cstring>

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/layout.h"
#include "sigma1/backend/cpu/move.h"

namespace sigma1::cpu {
namespace {

using Axes = std::vector<int64_t>;

// The output's elements are the buffer's, in its order.
void move_all(const Launch& launch, const Buffer& from, bool as_bytes) {
  move(launch, 0, as_bytes, [&](int64_t i) { return Piece{&from, i, from.count() - i}; });
}

void run_reshape(const Launch& launch) {
  bool as_bytes = moves_bytes(launch, 0);
  if (as_bytes && launch.in(0).data == launch.out().data) return;
  move_all(launch, launch.in(0), as_bytes);
}

bool anywhere(size_t, size_t) { return true; }

Layout transposed(const Launch& launch) {
  return transpose_layout(launch.in(0).shape, launch.attr<Axes>("order"));
}

// The planes of a transpose, cut into squares.
struct Squares : Planes {
  static constexpr int64_t kSide = 64;
  // A square's rows in the room lie a little further apart than its side: at a power of two they
  // would share their places in the cache.
  static constexpr int64_t kPitch = kSide + 4;

  using Planes::Planes;

  int64_t down() const { return (rows + kSide - 1) / kSide; }
  int64_t across() const { return (columns + kSide - 1) / kSide; }
  int64_t count() const { return outer.count() * down() * across(); }

  template <class T>
  void copy(int64_t square, const T* from, T* to) const {
    int64_t column = square % across() * kSide, row = square / across() % down() * kSide;
    int64_t outside = square / across() / down();
    int64_t height = std::min(kSide, rows - row), width = std::min(kSide, columns - column);
    from += outer.offset(outside) + column * column_step + row;
    to += outer_outputs.offset(outside) + row * row_step + column;
    T room[kSide * kPitch];
    for (int64_t c = 0; c < width; ++c) {
      std::memcpy(room + c * kPitch, from + c * column_step,
                  static_cast<size_t>(height) * sizeof(T));
    }
    for (int64_t r = 0; r < height; ++r) {
      for (int64_t c = 0; c < width; ++c) to[r * row_step + c] = room[c * kPitch + r];
    }
  }
};

template <class T>
void transpose_squares(const Layout& layout, const std::byte* from, std::byte* to) {
  Squares squares(layout);
  auto count = static_cast<size_t>(squares.count());
  size_t elements = static_cast<size_t>(layout.count()) / count;  // small squares go in groups
  size_t grain = std::max<size_t>(1, static_cast<size_t>(kMoveGrain) / elements);
  parallel_for(count, grain, [&](size_t begin, size_t end) {
    for (size_t square = begin; square < end; ++square) {
      squares.copy(static_cast<int64_t>(square), reinterpret_cast<const T*>(from),
                   reinterpret_cast<T*>(to));
    }
  });
}

void transpose_codes(const Layout& layout, const Buffer& in, std::byte* to) {
  int64_t bytes = element_bytes(in);
  if (bytes == 1) {
    transpose_squares<uint8_t>(layout, in.data, to);
  } else if (bytes == 2) {
    transpose_squares<uint16_t>(layout, in.data, to);
  } else {
    transpose_squares<uint32_t>(layout, in.data, to);
  }
}

// Codes are transposed as they are; what is left to compute is then done in order.
void run_transpose(const Launch& launch) {
  const Buffer &in = launch.in(0), &out = launch.out();
  Layout layout = transposed(launch);
  bool as_bytes = moves_bytes(launch, 0);
  if (layout.run_stride() == 1) {
    move(launch, 0, as_bytes, [&](int64_t i) {
      return Piece{&in, layout.offset(i), layout.run() - i % layout.run()};
    });
    return;
  }
  std::byte* codes = same_codes(in, out) ? out.data : launch.workspace.data();
  transpose_codes(layout, in, codes);
  if (as_bytes) return;
  Buffer moved = in;
  moved.data = codes;
  move_all(launch, moved, false);
}

int64_t transpose_workspace(const Launch& launch) {
  const Buffer& in = launch.in(0);
  if (same_codes(in, launch.out()) || transposed(launch).run_stride() == 1) return 0;
  return in.count() * element_bytes(in);
}

// Elements from one place on the outer axes to the next: those of `axis` and of the axes within.
int64_t row_of(const Buffer& buffer, size_t axis) {
  return buffer.shape[axis] * step_along(buffer.shape, axis);
}

size_t part_axis(const Launch& launch) {
  return from_front(launch.attr<int64_t>("axis"), launch.in(0).shape);
}

// Output `o` is what lies from `begin` on along the axis.
void move_part(const Launch& launch, size_t o, int64_t begin) {
  const Buffer& whole = launch.in(0);
  size_t axis = part_axis(launch);
  int64_t row = row_of(launch.out(o), axis), whole_row = row_of(whole, axis);
  int64_t skipped = begin * step_along(whole.shape, axis);
  move(launch, o, moves_bytes(launch, o), [&](int64_t i) {
    return Piece{&whole, i / row * whole_row + skipped + i % row, row - i % row};
  });
}

void run_slice(const Launch& launch) { move_part(launch, 0, launch.attr<int64_t>("begin")); }

void run_split(const Launch& launch) {
  int64_t size = launch.out().shape[part_axis(launch)];
  for (size_t o = 0; o < launch.outputs.size(); ++o) {
    move_part(launch, o, static_cast<int64_t>(o) * size);
  }
}

void run_unslice(const Launch& launch) {
  const Buffer& part = launch.in(0);
  size_t axis = part_axis(launch);
  int64_t row = row_of(part, axis), whole_row = row_of(launch.out(), axis);
  int64_t begin = launch.attr<int64_t>("begin") * step_along(part.shape, axis), end = begin + row;
  move(launch, 0, moves_bytes(launch, 0), [&](int64_t i) {
    int64_t place = i % whole_row;
    if (place < begin) return Piece{nullptr, 0, begin - place};
    if (place >= end) return Piece{nullptr, 0, whole_row - place};
    return Piece{&part, i / whole_row * row + place - begin, end - place};
  });
}

void run_concat(const Launch& launch) {
  size_t axis = part_axis(launch);
  int64_t whole_row = row_of(launch.out(), axis);
  bool as_bytes = moves_bytes(launch, 0, launch.inputs.size());
  move(launch, 0, as_bytes, [&](int64_t i) {
    const Buffer* part = launch.inputs.data();
    int64_t place = i % whole_row, row = row_of(*part, axis);
    while (place >= row) {
      place -= row;
      row = row_of(*++part, axis);
    }
    return Piece{part, i / whole_row * row + place, row - place};
  });
}

constexpr Kernel kKernels[] = {{&reshape_op, run_reshape, nullptr, anywhere},
                               {&transpose_op, run_transpose, transpose_workspace},
                               {&slice_op, run_slice},
                               {&unslice_op, run_unslice},
                               {&concat_op, run_concat},
                               {&split_op, run_split}};

}  // namespace

std::span<const Kernel> shape_kernels() { return kKernels; }

}  // namespace sigma1::cpu
