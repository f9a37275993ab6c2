// A softmax is no elementwise function: how large its output and gradient are depends on the length
// of the row and the spread of its logits. Here are the moments that say so, without sampling.
#pragma once

#include <cstdint>

namespace sigma1 {

// Expectations over p = softmax(s·x), x of n independent N(0, 1) elements; Pₖ = Σⱼ pⱼᵏ, and
// J = diag(p) − p·pᵀ is the Jacobian.
struct SoftmaxMoments {
  double p2, p3;      // E[P₂], E[P₃]
  double p2_squared;  // E[P₂²]
  double radial;      // E|J·x|²: the Jacobian along the logits themselves

  // E‖J‖² = E[P₂ − 2·P₃ + P₂²], summed over all its elements.
  double jacobian() const { return p2 - 2 * p3 + p2_squared; }
};

// To six digits for up to 10⁵ logits. Throws Error unless n ≥ 1 and 0 ≤ s ≤ 1000.
SoftmaxMoments softmax_moments(int64_t n, double s);

// The mean over rows of 1, 2, … n logits, as under a causal mask.
SoftmaxMoments causal_softmax_moments(int64_t n, double s);

}  // namespace sigma1
