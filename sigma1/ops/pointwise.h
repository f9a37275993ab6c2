// Ops that treat each element alone.
#pragma once

#include <string_view>

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef relu_op, gelu_op, gelu_tanh_op, tanh_op, sigmoid_op, silu_op, softplus_op,
    exp_op, log_op;
extern const OpDef relu_grad_op, gelu_grad_op, gelu_tanh_grad_op, tanh_grad_op, sigmoid_grad_op,
    silu_grad_op, softplus_grad_op, exp_grad_op, log_grad_op;
extern const OpDef mul_op, scale_op, identity_op, dropout_op;

Value relu(Value x);
// With a multiplier m: of m·x.
Value gelu(Value x, double multiplier = 1);  // exact: x·Φ(x)
Value gelu_tanh(Value x);                    // the approximation of BERT and GPT-2
Value tanh(Value x);
Value sigmoid(Value x);
Value silu(Value x, double multiplier = 1);
Value softplus(Value x);
Value exp(Value x);
Value log(Value x);

// y's shape is x's, or x's last axes.
Value mul(Value x, Value y);
// x · factor, forward and backward: part of what the network computes.
Value scale(Value x, double factor);
// The paper's id: does nothing, and as a scaled op id*(x, α, β) is where factors are put.
Value identity(Value x);
// Zero with probability p, else x / (1 − p). `stream` names its random numbers.
Value dropout(Value x, double p, const std::string& stream, uint64_t seed = 0);

}  // namespace sigma1
