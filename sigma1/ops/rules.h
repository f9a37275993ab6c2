// What the rules of many ops share: checks that name what was expected, and frequent shapes.
#pragma once

#include "sigma1/base/error.h"
#include "sigma1/graph/graph.h"

namespace sigma1 {

// 1/√n, the factor of a sum of n independent terms.
double rsqrt(double n);

// The output is like the first input.
std::vector<TensorType> infer_like_first(const OpView& v);

void expect_rank_at_least(const OpView& v, size_t input, int rank);
void expect_shape(const OpView& v, size_t input, const Shape& expected);
void expect_kind(const OpView& v, size_t input, Kind kind);

// `axis` counted from the front; an Error when the tensor has no such axis.
int checked_axis(const TensorType& type, int64_t axis);

// Answers for OpDef's linear_in and multiplies.
bool every_input(const OpView& v, size_t input);
bool first_input(const OpView& v, size_t input);
bool last_input(const OpView& v, size_t input);
bool first_two_inputs(const OpView& v, size_t input);

// The gradient of an operand whose shape is the last axes of the output's: summed over the others.
Value sum_to_shape(Value gradient, const Shape& shape);

}  // namespace sigma1
