// Finds an element of one tensor in another that has its axes in another order, or lacks some.
#pragma once

#include "sigma1/graph/tensor.h"

namespace sigma1 {

// How many elements one step along an axis passes.
inline int64_t stride(const Shape& shape, int axis) {
  return element_count(Shape(shape.begin() + axis + 1, shape.end()));
}

// Where element `i` of a row-major tensor of this shape lies when axis a advances by strides[a].
inline int64_t offset(int64_t i, const Shape& shape, const Shape& strides) {
  int64_t place = 0;
  for (size_t axis = shape.size(); axis-- > 0; i /= shape[axis]) {
    place += i % shape[axis] * strides[axis];
  }
  return place;
}

}  // namespace sigma1
