// Optimiser steps, checked against the closed forms of their updates. Betas and a gradient
// scale of zero reach the corners that random inputs do not.
#include <cmath>

#include "sigma1/ops/update.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Expected = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

const Shape kShape{3, 5}, kLargeShape{130, 170};

ConformanceCase step_case(const std::string& label, const OpDef& op, size_t tensors, size_t scalars,
                          const Attributes& attributes, const Expected& expected) {
  std::vector<TensorType> inputs(tensors, {kShape}), large(tensors, {kLargeShape});
  inputs.insert(inputs.end(), scalars, {Shape{}});
  large.insert(large.end(), scalars, {Shape{}});
  return {label, &op, inputs, attributes, expected, large, attributes};
}

ConformanceCase sgd_case(const std::string& label, const SgdOptions& o) {
  // Coefficients of param, grad and momentum in the step, worked out by hand.
  double ahead = o.nesterov ? 1 + o.momentum : 1;
  double of_momentum = o.nesterov ? o.momentum * o.momentum : o.momentum;
  return step_case(label, sgd_step_op, 3, 1,
                   {{"momentum", o.momentum},
                    {"nesterov", o.nesterov},
                    {"weight_decay", o.weight_decay},
                    {"gradient_scale", o.gradient_scale},
                    {"rate_scale", o.rate_scale}},
                   [=](const std::vector<Tensor>& in) {
                     Tensor param(kShape), momentum(kShape);
                     for (int64_t i = 0; i < param.count(); ++i) {
                       double p = in[0][i], g = o.gradient_scale * in[1][i], m = in[2][i];
                       double lr = o.rate_scale * in[3][0];
                       param[i] = p * (1 - lr * ahead * o.weight_decay) - lr * ahead * g -
                                  lr * of_momentum * m;
                       momentum[i] = g + o.weight_decay * p + o.momentum * m;
                     }
                     return std::vector<Tensor>{param, momentum};
                   });
}

// The new m and v, and Adam's direction without decoupled decay.
struct AdamParts {
  Tensor m{kShape}, v{kShape}, direction{kShape};
};

AdamParts adam_parts(const AdamOptions& o, const std::vector<Tensor>& in) {
  AdamParts parts;
  double step = in[5][0];
  double of_zero_start = std::sqrt(1 - std::pow(o.beta2, step)) / (1 - std::pow(o.beta1, step));
  for (int64_t i = 0; i < parts.m.count(); ++i) {
    double g = o.gradient_scale * in[1][i];
    if (!o.decoupled) g += o.weight_decay * in[0][i];
    parts.m[i] = g + o.beta1 * (in[2][i] - g);
    parts.v[i] = g * g + o.beta2 * (in[3][i] - g * g);
    double epsilon = o.epsilon * std::sqrt(1 - std::pow(o.beta2, step));
    double size = std::sqrt(parts.v[i]) + epsilon;
    parts.direction[i] = size > 0 ? of_zero_start * parts.m[i] / size : 0;
  }
  return parts;
}

Attributes adam_attributes(const AdamOptions& o) {
  return {{"beta1", o.beta1},          {"beta2", o.beta2},
          {"epsilon", o.epsilon},      {"weight_decay", o.weight_decay},
          {"decoupled", o.decoupled},  {"gradient_scale", o.gradient_scale},
          {"rate_scale", o.rate_scale}};
}

ConformanceCase adam_case(const std::string& label, const AdamOptions& o) {
  return step_case(label, adam_step_op, 4, 2, adam_attributes(o), [=](const auto& in) {
    AdamParts parts = adam_parts(o, in);
    Tensor param(kShape);
    double lr = o.rate_scale * in[4][0], kept = o.decoupled ? 1 - lr * o.weight_decay : 1;
    for (int64_t i = 0; i < param.count(); ++i) {
      param[i] = in[0][i] * kept - lr * parts.direction[i];
    }
    return std::vector<Tensor>{param, parts.m, parts.v};
  });
}

ConformanceCase lamb_case(const std::string& label, const LambOptions& o) {
  Attributes attributes = adam_attributes(o.adam);
  attributes.set("max_trust_ratio", o.max_trust_ratio);
  return step_case(label, lamb_step_op, 4, 2, attributes, [=](const auto& in) {
    AdamParts parts = adam_parts(o.adam, in);
    Tensor update = parts.direction, param(kShape);
    double param2 = 0, update2 = 0;
    for (int64_t i = 0; i < param.count(); ++i) {
      if (o.adam.decoupled) update[i] += o.adam.weight_decay * in[0][i];
      param2 += in[0][i] * in[0][i];
      update2 += update[i] * update[i];
    }
    double ratio = update2 > 0 ? std::sqrt(param2 / update2) : 1;
    if (o.max_trust_ratio > 0 && ratio > o.max_trust_ratio) ratio = o.max_trust_ratio;
    for (int64_t i = 0; i < param.count(); ++i) {
      param[i] = in[0][i] - in[4][0] * o.adam.rate_scale * ratio * update[i];
    }
    return std::vector<Tensor>{param, parts.m, parts.v};
  });
}

}  // namespace

std::vector<ConformanceCase> update_cases() {
  const AdamOptions no_gradient{.beta1 = 0, .beta2 = 0, .epsilon = 0, .gradient_scale = 0};
  return {sgd_case("defaults", {}),
          sgd_case("momentum", {.momentum = 0.9, .weight_decay = 0.2}),
          sgd_case("nesterov",
                   {.momentum = 0.8, .nesterov = true, .weight_decay = 0.3, .gradient_scale = -2}),
          sgd_case("a rate of its own", {.momentum = 0.7, .weight_decay = 0.2, .rate_scale = 0.3}),
          adam_case("defaults", {}),
          adam_case("decoupled decay", {.beta1 = 0.7, .beta2 = 0.8, .weight_decay = 0.3}),
          adam_case("decay in the gradient",
                    {.weight_decay = 0.3, .decoupled = false, .gradient_scale = -3}),
          adam_case("a rate of its own", {.weight_decay = 0.3, .rate_scale = 0.3}),
          adam_case("large epsilon", {.epsilon = 0.5}),
          adam_case("no epsilon", {.epsilon = 0}),
          adam_case("no epsilon, no gradient", no_gradient),
          lamb_case("defaults", {}),
          lamb_case("decay", {.adam = {.weight_decay = 0.3, .gradient_scale = -1}}),
          lamb_case("decay in the gradient",
                    {.adam = {.epsilon = 0.1, .weight_decay = 0.3, .decoupled = false}}),
          lamb_case("a rate of its own", {.adam = {.weight_decay = 0.3, .rate_scale = 0.3}}),
          lamb_case("clamped", {.max_trust_ratio = 0.1}),
          lamb_case("nothing to do", {.adam = no_gradient})};
}

}  // namespace sigma1
