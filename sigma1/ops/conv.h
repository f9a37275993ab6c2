// Convolution over time.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef conv1d_op, conv1d_grad_input_op, conv1d_grad_weight_op;

// x[batch, time, c_in] · w[kernel, c_in / groups, c_out] → [batch, time_out, c_out]
struct ConvDims {
  int64_t batch, time, c_in, kernel, c_out, groups, stride, dilation, padding, time_out;

  int64_t group_in() const { return c_in / groups; }
  int64_t group_out() const { return c_out / groups; }
  // What a tap reads for output t; before the start or past the end, a zero.
  int64_t input_time(int64_t t, int64_t tap) const { return t * stride + tap * dilation - padding; }
  bool reads(int64_t t, int64_t tap) const {
    return 0 <= input_time(t, tap) && input_time(t, tap) < time;
  }
};

// Throws Error where shapes and attributes do not fit.
ConvDims conv_dims(const Shape& x, const Shape& w, const Attributes& attributes);

struct Conv1dOptions {
  int64_t stride = 1, dilation = 1, groups = 1;
  // Each output sees its own and earlier inputs, zeros before the first; else only whole windows.
  bool causal = false;
};

// x[batch, time, c_in] * w[kernel, c_in / groups, c_out] + bias[c_out] → [batch, time_out, c_out]
// An empty bias is none.
Value conv1d(Value x, Value w, Value bias = {}, const Conv1dOptions& options = {});

}  // namespace sigma1
