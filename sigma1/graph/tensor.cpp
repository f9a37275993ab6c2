#include "sigma1/graph/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <numeric>

#include "sigma1/base/error.h"

namespace sigma1 {

int64_t element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int64_t TensorType::dim(int axis) const {
  int from_front = axis < 0 ? axis + rank() : axis;
  if (from_front < 0 || from_front >= rank()) {
    throw Bug("axis {} of a tensor of shape {}", axis, to_string(shape));
  }
  return shape[static_cast<size_t>(from_front)];
}

}  // namespace sigma1
