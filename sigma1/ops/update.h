// Optimiser steps as ops, so that a graph holds a whole training step: from parameter, gradient and
// state to their next values, element by element.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

// Inputs → outputs, in this order; lr and step have shape [], all others the parameter's.
//   sgd_step   param, grad, momentum, lr    → param, momentum
//   adam_step  param, grad, m, v, lr, step  → param, m, v
//   lamb_step  as adam_step
// `step` is 1 at the first step. Attributes are the options below, by their names.
extern const OpDef sgd_step_op, adam_step_op, lamb_step_op;

struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double gradient_scale = 1;  // the gradient is multiplied by it before anything else
  double rate_scale = 1;      // the rate is multiplied by it: what this parameter learns by
};

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // Kingma & Ba (2015), Algorithm 1
  double weight_decay = 0;
  bool decoupled = true;  // AdamW: decay beside the gradient's direction, not within the gradient
  double gradient_scale = 1, rate_scale = 1;
};

struct LambOptions {
  AdamOptions adam = {.epsilon = 1e-6};  // You et al. (2020), appendix
  double max_trust_ratio = 0;            // 0: not clamped
};

struct SgdStep {
  Value param, momentum;
};

struct AdamStep {
  Value param, m, v;
};

SgdStep sgd_step(Value param, Value grad, Value momentum, Value lr, const SgdOptions& options = {});
AdamStep adam_step(Value param, Value grad, Value m, Value v, Value lr, Value step,
                   const AdamOptions& options = {});
// Adam's direction, decay included, with the length ‖param‖ — as long as neither length is zero.
AdamStep lamb_step(Value param, Value grad, Value m, Value v, Value lr, Value step,
                   const LambOptions& options = {});

}  // namespace sigma1
