#include "sigma1/ops/rules.h"

#include <cmath>
#include <numeric>

#include "sigma1/ops/reduce.h"

namespace sigma1 {

double rsqrt(double n) { return 1 / std::sqrt(n); }

std::vector<TensorType> infer_like_first(const OpView& v) { return {v.in(0)}; }

void expect_rank_at_least(const OpView& v, size_t input, int rank) {
  if (v.in(input).rank() >= rank) return;
  throw Error("input {}: expected at least {} axes, got shape {}", input, rank,
              to_string(v.in(input).shape));
}

void expect_shape(const OpView& v, size_t input, const Shape& expected) {
  if (v.in(input).shape == expected) return;
  throw Error("input {}: expected shape {}, got {}", input, to_string(expected),
              to_string(v.in(input).shape));
}

void expect_kind(const OpView& v, size_t input, Kind kind) {
  if (v.in(input).kind == kind) return;
  throw Error("input {}: expected {}", input,
              kind == Kind::index ? "indices, got real numbers" : "real numbers, got indices");
}

int checked_axis(const TensorType& type, int64_t axis) {
  int64_t from_front = axis < 0 ? axis + type.rank() : axis;
  if (from_front < 0 || from_front >= type.rank()) {
    throw Error("axis: expected one of the {} of shape {}, got {}", type.rank(),
                to_string(type.shape), axis);
  }
  return static_cast<int>(from_front);
}

bool every_input(const OpView&, size_t) { return true; }
bool first_input(const OpView&, size_t input) { return input == 0; }
bool last_input(const OpView& v, size_t input) { return input + 1 == v.inputs.size(); }
bool first_two_inputs(const OpView&, size_t input) { return input < 2; }

Value sum_to_shape(Value gradient, const Shape& shape) {
  size_t extra = gradient.shape().size() - shape.size();
  if (extra == 0) return gradient;
  std::vector<int64_t> axes(extra);
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return sum(gradient, axes);
}

}  // namespace sigma1
