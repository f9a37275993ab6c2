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
// matmul for a last layer: its output is `multiplier`/m of the product under unit scaling, not
// m^-½, so that it starts small and learns at a rate that does not depend on m (u-µP). Its
// gradients keep unit scale, which is right only where nothing else joins what it joins: cut edges.
Value readout(Value x, Value w, double multiplier = 1);
bool is_readout(const Node& node);
// x[…, m] · w[m, n] + bias[n]
Value linear(Value x, Value w, Value bias);

}  // namespace sigma1
