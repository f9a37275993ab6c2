// Walks a tensor in an order that is not its own: axes moved, left out or repeated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sigma1/base/error.h"
#include "sigma1/graph/tensor.h"

namespace sigma1::cpu {

// Axes from the outermost on, and how far one step along each goes in the tensor walked. On the
// stack, since kernels may not allocate.
struct Layout {
  static constexpr size_t kMaxAxes = 16;

  size_t axes = 0;
  std::array<int64_t, kMaxAxes> sizes, strides;

  // Adds an axis inside the others; one that continues the last is merged with it, so that few are
  // left and runs are long.
  void push(int64_t size, int64_t stride) {
    if (size == 1) return;
    if (axes > 0 && strides[axes - 1] == size * stride) {
      sizes[axes - 1] *= size;
      strides[axes - 1] = stride;
      return;
    }
    if (axes == kMaxAxes) throw Error("expected at most {} axes that do not merge", kMaxAxes);
    sizes[axes] = size;
    strides[axes++] = stride;
  }

  // Where element i of the walk lies.
  int64_t offset(int64_t i) const {
    int64_t place = 0;
    for (size_t axis = axes; axis-- > 0; i /= sizes[axis]) {
      place += i % sizes[axis] * strides[axis];
    }
    return place;
  }

  int64_t count() const {
    int64_t product = 1;
    for (size_t axis = 0; axis < axes; ++axis) product *= sizes[axis];
    return product;
  }

  // Elements of the walk that lie side by side, or, with a stride of 0, are all the same.
  int64_t run() const { return axes > 0 ? sizes[axes - 1] : 1; }
  int64_t run_stride() const { return axes > 0 ? strides[axes - 1] : 1; }
};

// `axis`, which the record has checked, counted from the front.
inline size_t from_front(int64_t axis, const Shape& shape) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
}

// Elements that one step along an axis passes.
inline int64_t step_along(const Shape& shape, size_t axis) {
  int64_t product = 1;
  for (size_t inner = axis + 1; inner < shape.size(); ++inner) product *= shape[inner];
  return product;
}

}  // namespace sigma1::cpu
