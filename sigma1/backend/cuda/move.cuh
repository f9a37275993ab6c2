// What the kernels share that take numbers from elsewhere: two walks, one through what is read and
// one through what is written, side by side.
#pragma once

#include "sigma1/backend/cpu/layout.h"
#include "sigma1/backend/cpu/move.h"
#include "sigma1/backend/cuda/four.cuh"

namespace sigma1::cuda {

using cpu::Layout;

// Where element i of a walk lies; i is less than its count.
__device__ inline int64_t place(const Layout& layout, int64_t i) {
  int64_t result = 0;
  for (size_t axis = layout.axes; axis-- > 1;) {
    int64_t size = layout.sizes[axis], outside = i / size;
    result += (i - outside * size) * layout.strides[axis];
    i = outside;
  }
  return layout.axes > 0 ? result + i * layout.strides[0] : 0;
}

struct Walk {
  Layout layout;
  int64_t base = 0;
};

// All elements in their order.
Walk in_order(int64_t count);

// How many neighbours can be brought over at once; 1 where it must be element by element.
int64_t unit_size(const Launch& launch, size_t input, size_t output);
// The walk over units of `size` neighbours, where it goes through whole ones in their order.
std::optional<Walk> in_units(const Walk& walk, int64_t size);

// Element i of `to` in the output becomes element i of `from` in the input, for i < count.
void move(const Launch& launch, size_t input, size_t output, const Walk& from, const Walk& to,
          int64_t count);

// How one element is brought over: as it is, …
template <class Code>
struct CodeCopier {
  using Element = Code;
  const Code* from;
  Code* to;

  __device__ Element read(int64_t i) const { return from[i]; }
  __device__ void write(int64_t i, Element code) const { to[i] = code; }
};

template <class Code>
CodeCopier<Code> code_copier(const Buffer& in, const Buffer& out) {
  return {reinterpret_cast<const Code*>(in.data), reinterpret_cast<Code*>(out.data)};
}

// … or through fp32.
struct NumberCopier {
  using Element = float;
  View from;
  Output to;
  float factor;

  __device__ Element read(int64_t i) const { return load(from, i); }
  __device__ void write(int64_t i, Element value) const { write_one(to, i, factor * value); }
};

// Four of them.
struct FourCopier {
  using Element = Four;
  View from;
  Output to;
  float factor;

  __device__ Element read(int64_t i) const { return load_four(from, 4 * i); }
  __device__ void write(int64_t i, Element numbers) const {
    for (float& each : numbers.at) each *= factor;
    cuda::write(to, 4 * i, numbers);
  }
};

// Whether the output has nothing to compute: the input's codes will do.
inline bool moves_codes(const Launch& launch, size_t input, size_t output) {
  const Buffer &in = launch.in(input), &out = launch.out(output);
  if (out.kind == Kind::index) return true;
  return launch.factor(output) == 1 && cpu::same_codes(in, out);
}

// Calls body with the copier from an input to an output.
template <class Body>
void with_copier(const Launch& launch, size_t input, size_t output, Body body) {
  const Buffer &in = launch.in(input), &out = launch.out(output);
  int64_t bytes = cpu::element_bytes(out);
  if (!moves_codes(launch, input, output)) {
    body(NumberCopier{view_of(in), output_of(launch, output), launch.factor(output)});
  } else if (bytes == 1) {
    body(code_copier<uint8_t>(in, out));
  } else if (bytes == 2) {
    body(code_copier<uint16_t>(in, out));
  } else {
    body(code_copier<uint32_t>(in, out));
  }
}

// The same for units, where unit_size has more than one element in them.
template <class Body>
void with_unit_copier(const Launch& launch, size_t input, size_t output, Body body) {
  const Buffer &in = launch.in(input), &out = launch.out(output);
  if (moves_codes(launch, input, output)) {
    body(code_copier<uint4>(in, out));
  } else {
    body(FourCopier{view_of(in), output_of(launch, output), launch.factor(output)});
  }
}

}  // namespace sigma1::cuda
