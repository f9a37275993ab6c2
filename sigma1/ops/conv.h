// Convolution over time.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef conv1d_op, conv1d_grad_input_op, conv1d_grad_weight_op;

struct Conv1dOptions {
  int64_t stride = 1, dilation = 1, groups = 1;
  // Each output sees its own and earlier inputs, zeros before the first; else only whole windows.
  bool causal = false;
};

// x[batch, time, c_in] * w[kernel, c_in / groups, c_out] + bias[c_out] → [batch, time_out, c_out]
// An empty bias is none.
Value conv1d(Value x, Value w, Value bias = {}, const Conv1dOptions& options = {});

}  // namespace sigma1
