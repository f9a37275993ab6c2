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

// … or through fp32.
struct NumberCopier {
  using Element = float;
  View from;
  Output to;
  float factor;

  __device__ Element read(int64_t i) const { return load(from, i); }
  __device__ void write(int64_t i, Element value) const { write_one(to, i, factor * value); }
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
  auto copy = [&]<class Code>(Code) {
    body(CodeCopier<Code>{reinterpret_cast<const Code*>(in.data),
                          reinterpret_cast<Code*>(out.data)});
  };
  int64_t bytes = cpu::element_bytes(out);
  if (!moves_codes(launch, input, output)) {
    body(NumberCopier{view_of(in), output_of(launch, output), launch.factor(output)});
  } else if (bytes == 1) {
    copy(uint8_t{});
  } else if (bytes == 2) {
    copy(uint16_t{});
  } else {
    copy(uint32_t{});
  }
}

}  // namespace sigma1::cuda
