// Normalisation of each row: it makes the scale of what follows independent of what came before.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef layer_norm_op, rms_norm_op;
// The gradient of x, and those of w and c: what is local to a row, and what sums over rows.
extern const OpDef layer_norm_grad_op, rms_norm_grad_op;
extern const OpDef layer_norm_weight_grad_op, rms_norm_weight_grad_op;

// PyTorch's default. It is added to the mean square before the root is taken.
constexpr double kNormEpsilon = 1e-5;

// c + w · (x − μ)/σ over the last axis of x[…, n]; w[n] and c[n] may be left out, c first.
Value layer_norm(Value x, Value w = {}, Value c = {}, double eps = kNormEpsilon);
// w · x/rms(x); w[n] may be left out.
Value rms_norm(Value x, Value w = {}, double eps = kNormEpsilon);

}  // namespace sigma1
