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

// Of u-µP (Blake et al., 2024): layer i of `layers`, from 0, the even ones attention, weighs τᵢ to
// the skip's 1, so that every layer adds as much to the end as any other of its kind. `multiplier`:
// how much all add beside what came in; `attention_ratio`: attention beside the others.
ResidualWeights u_mup_residual(int64_t i, int64_t layers, double multiplier = 1,
                               double attention_ratio = 1);

// A split, the branch, and a join, marked so that unit scaling can move the branch's weight from
// the join's gradient to the split's.
Value residual(Value x, ResidualWeights weights, const std::function<Value(Value)>& branch);

}  // namespace sigma1
