// Walks a tensor in an order that is not its own: axes moved, left out or repeated.
#pragma once

#include <algorithm>
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

inline bool is_one_of(size_t axis, const std::vector<int64_t>& axes, const Shape& full) {
  return std::ranges::any_of(axes, [&](int64_t each) { return from_front(each, full) == axis; });
}

// A tensor apart that is summed along `axes`.
struct SummedAxes {
  Layout groups;        // the axes left, but for `columns`
  Layout summed;        // the axes that go
  int64_t columns = 1;  // neighbours that stay neighbours; 1: neighbours are summed

  SummedAxes(const Shape& full, const std::vector<int64_t>& axes) {
    for (size_t axis = 0; axis < full.size(); ++axis) {
      (is_one_of(axis, axes, full) ? summed : groups).push(full[axis], step_along(full, axis));
    }
    if (groups.axes > 0 && groups.run_stride() == 1) columns = groups.sizes[--groups.axes];
  }

  int64_t outputs() const { return groups.count() * columns; }
};

// `x` in the order of what it becomes when it is repeated along `axes`.
inline Layout broadcast_layout(const Shape& x, const Shape& full,
                               const std::vector<int64_t>& axes) {
  Layout layout;
  for (size_t axis = 0, of_x = 0; axis < full.size(); ++axis) {
    layout.push(full[axis], is_one_of(axis, axes, full) ? 0 : step_along(x, of_x++));
  }
  return layout;
}

// The input of a transpose in the order of its output.
inline Layout transpose_layout(const Shape& shape, const std::vector<int64_t>& order) {
  Layout layout;
  for (int64_t axis : order) {
    size_t from = from_front(axis, shape);
    layout.push(shape[from], step_along(shape, from));
  }
  return layout;
}

// A transpose whose last axis moves, as planes: rows lie side by side in the input, columns in the
// output.
struct Planes {
  Layout outer;                          // neither rows nor columns
  Layout outer_outputs;                  // the same axes in the output
  int64_t rows = 1, row_step = 1;        // in the output
  int64_t columns = 1, column_step = 1;  // in the input

  explicit Planes(const Layout& layout) {
    int64_t step = layout.count();
    for (size_t axis = 0; axis < layout.axes; ++axis) {
      int64_t size = layout.sizes[axis], stride = layout.strides[axis];
      step /= size;
      if (axis + 1 == layout.axes) {
        columns = size;
        column_step = stride;
      } else if (stride == 1) {
        rows = size;
        row_step = step;
      } else {
        outer.push(size, stride);
        outer_outputs.push(size, step);
      }
    }
  }
};

}  // namespace sigma1::cpu
