// Ops that move numbers without changing them.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef reshape_op, transpose_op, slice_op, unslice_op, concat_op, split_op;

Value reshape(Value x, Shape shape);
// Axis i of the result is axis order[i] of x.
Value transpose(Value x, std::vector<int64_t> order);
// [begin, end) of one axis.
Value slice(Value x, int64_t axis, int64_t begin, int64_t end);
// The gradient of slice: x from `begin` on of an axis of `total`, zeros elsewhere.
Value unslice(Value x, int64_t axis, int64_t begin, int64_t total);
Value concat(std::vector<Value> parts, int64_t axis);
// Into `parts` equal parts.
std::vector<Value> split(Value x, int64_t axis, int64_t parts);

}  // namespace sigma1
