// Sums of branches.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef add_op, weighted_add_op;

// Of any number of terms of one shape.
Value add(std::vector<Value> terms);
// x[…, n] + bias[n]: a term may be shorter, having the last axes of the first.
Value weighted_add(std::vector<Value> terms, std::vector<double> weights);

}  // namespace sigma1
