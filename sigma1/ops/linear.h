// Products with a matrix: matmul and the linear layer.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef matmul_op, linear_op;

struct Transpose {
  bool left = false, right = false;
};

// X[…, b, m] · W[m, n], or W[…, m, n] with the same leading axes.
Value matmul(Value x, Value w, Transpose transpose = {});
// x[…, m] · w[m, n] + bias[n]
Value linear(Value x, Value w, Value bias);

}  // namespace sigma1
