// Residual layers: y = γ₁·x + γ₂·f(x), with the three weightings the paper compares (Section 4.3).
#pragma once

#include <functional>

#include "sigma1/graph/graph.h"

namespace sigma1 {

struct ResidualWeights {
  double skip = 1, branch = 1;
};

// x + f(x): as in regular models, not suitable for unit scaling.
ResidualWeights default_residual();
// √(1−τ)·x + √τ·f(x). Throws Error unless 0 ≤ τ ≤ 1.
ResidualWeights fixed_residual(double tau);
// √(l/(l+1))·x + √(1/(l+1))·f(x): every layer so far weighs the same. l counts from 1; from 0, the
// first layer drops what it is given.
ResidualWeights running_mean_residual(int64_t l);

// A split, the branch, and a join, marked so that unit scaling can move the branch's weight from
// the join's gradient to the split's.
Value residual(Value x, ResidualWeights weights, const std::function<Value(Value)>& branch);

}  // namespace sigma1
