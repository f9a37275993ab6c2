// What a tensor is to the compiler (its type) and to the reference executor (its numbers).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sigma1 {

using Shape = std::vector<int64_t>;

int64_t element_count(const Shape& shape);
std::string to_string(const Shape& shape);  // "[8, 256, 128]"

enum class Kind {
  real,   // carries values and gradients
  index,  // token ids, positions, targets: no gradient
};

struct TensorType {
  Shape shape;
  Kind kind = Kind::real;

  bool operator==(const TensorType&) const = default;
  int rank() const { return static_cast<int>(shape.size()); }
  int64_t dim(int axis) const;  // from the end when negative
  int64_t count() const { return element_count(shape); }
  int64_t rows() const { return count() / dim(-1); }  // vectors along the last axis
};

// Numbers in double, row-major: an oracle's tensor, not an engine's. An index is stored as a whole
// number.
struct Tensor {
  Shape shape;
  std::vector<double> data;

  Tensor() = default;
  explicit Tensor(Shape s) : shape(std::move(s)), data(static_cast<size_t>(element_count(shape))) {}
  Tensor(Shape s, std::vector<double> d) : shape(std::move(s)), data(std::move(d)) {}

  int64_t count() const { return static_cast<int64_t>(data.size()); }
  int64_t dim(int axis) const { return TensorType{shape}.dim(axis); }
  double& operator[](int64_t i) { return data[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return data[static_cast<size_t>(i)]; }
};

}  // namespace sigma1
