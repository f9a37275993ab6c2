// Sums and means over axes, and the broadcast that is their gradient.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef sum_op, mean_op, broadcast_op;

// Over the given axes, which disappear.
Value sum(Value x, std::vector<int64_t> axes);
Value mean(Value x, std::vector<int64_t> axes);
// Repeats x along new axes: `axes` are their places in `shape`.
Value broadcast(Value x, Shape shape, std::vector<int64_t> axes);

}  // namespace sigma1
