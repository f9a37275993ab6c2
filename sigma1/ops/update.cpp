#include "sigma1/ops/update.h"

#include <algorithm>
#include <cmath>

#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

// The first `tensors` inputs are like the parameter, the others scalars.
void expect_like_parameter(const OpView& v, size_t tensors) {
  for (size_t i = 0; i < v.inputs.size(); ++i) {
    expect_kind(v, i, Kind::real);
    expect_shape(v, i, i < tensors ? v.in(0).shape : Shape{});
  }
}

void expect_decay_rate(const OpView& v, std::string_view name) {
  double rate = v.attr<double>(name);
  if (!(rate >= 0 && rate < 1)) throw Error("{}: expected a number in [0, 1), got {}", name, rate);
}

std::vector<TensorType> infer_sgd(const OpView& v) {
  expect_like_parameter(v, 3);
  expect_decay_rate(v, "momentum");
  return {v.in(0), v.in(2)};
}

std::vector<TensorType> infer_adam(const OpView& v) {
  expect_like_parameter(v, 4);
  expect_decay_rate(v, "beta1");
  expect_decay_rate(v, "beta2");
  double epsilon = v.attr<double>("epsilon");
  if (!(epsilon >= 0))
    throw Error("epsilon: expected a number that is not negative, got {}", epsilon);
  return {v.in(0), v.in(2), v.in(3)};
}

std::vector<TensorType> infer_lamb(const OpView& v) {
  double limit = v.attr<double>("max_trust_ratio");
  if (!(limit >= 0)) throw Error("max_trust_ratio: expected 0 (none) or more, got {}", limit);
  return infer_adam(v);
}

void evaluate_sgd(const EvalView& v) {
  const Tensor &param = v.in(0), &grad = v.in(1), &momentum = v.in(2);
  double lr = v.attr<double>("rate_scale") * v.in(3)[0], kept = v.attr<double>("momentum");
  double decay = v.attr<double>("weight_decay"), scale = v.attr<double>("gradient_scale");
  bool nesterov = v.attr<bool>("nesterov");
  for (int64_t i = 0; i < param.count(); ++i) {
    double g = scale * grad[i] + decay * param[i];
    double velocity = kept * momentum[i] + g;
    v.out(0)[i] = param[i] - lr * (nesterov ? g + kept * velocity : velocity);
    v.out(1)[i] = velocity;
  }
}

// Fills the new m and v, and gives the direction to go against, decoupled decay included.
std::vector<double> adam_direction(const EvalView& v) {
  const Tensor &param = v.in(0), &grad = v.in(1);
  double step = v.in(5)[0], beta1 = v.attr<double>("beta1"), beta2 = v.attr<double>("beta2");
  double decay = v.attr<double>("weight_decay"), scale = v.attr<double>("gradient_scale");
  double epsilon = v.attr<double>("epsilon");
  bool decoupled = v.attr<bool>("decoupled");
  double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  std::vector<double> direction;
  for (int64_t i = 0; i < param.count(); ++i) {
    double g = scale * grad[i] + (decoupled ? 0 : decay * param[i]);
    double m = v.out(1)[i] = beta1 * v.in(2)[i] + (1 - beta1) * g;
    double mean_square = v.out(2)[i] = beta2 * v.in(3)[i] + (1 - beta2) * g * g;
    double size = std::sqrt(mean_square / correction2) + epsilon;
    // Without epsilon, a parameter that never had a gradient would otherwise become NaN.
    double toward = size == 0 ? 0 : m / correction1 / size;
    direction.push_back(toward + (decoupled ? decay * param[i] : 0));
  }
  return direction;
}

double adam_rate(const EvalView& v) { return v.attr<double>("rate_scale") * v.in(4)[0]; }

void evaluate_adam(const EvalView& v) {
  std::vector<double> direction = adam_direction(v);
  double rate = adam_rate(v);
  for (int64_t i = 0; i < v.in(0).count(); ++i) {
    v.out(0)[i] = v.in(0)[i] - rate * direction[static_cast<size_t>(i)];
  }
}

double length(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}

// A parameter at zero could never leave it, and a direction of zero has no length to change: both
// are left to Adam.
void evaluate_lamb(const EvalView& v) {
  std::vector<double> direction = adam_direction(v);
  double of_param = length(v.in(0).data), of_direction = length(direction);
  double ratio = of_param > 0 && of_direction > 0 ? of_param / of_direction : 1;
  double limit = v.attr<double>("max_trust_ratio");
  if (limit > 0) ratio = std::min(ratio, limit);
  double rate = adam_rate(v) * ratio;
  for (int64_t i = 0; i < v.in(0).count(); ++i) {
    v.out(0)[i] = v.in(0)[i] - rate * direction[static_cast<size_t>(i)];
  }
}

Attributes attributes_of(const AdamOptions& options) {
  return {{"beta1", options.beta1},          {"beta2", options.beta2},
          {"epsilon", options.epsilon},      {"weight_decay", options.weight_decay},
          {"decoupled", options.decoupled},  {"gradient_scale", options.gradient_scale},
          {"rate_scale", options.rate_scale}};
}

}  // namespace

constinit const OpDef sgd_step_op{
    .name = "sgd_step",
    .formula = "m ← μm + g + λp; p ← p − s·lr·m, or nesterov's look-ahead",
    .min_inputs = 4,
    .max_inputs = 4,
    .infer = infer_sgd,
    .evaluate = evaluate_sgd};

constinit const OpDef adam_step_op{
    .name = "adam_step",
    .formula = "m, v ← moving means of g, g²; p ← p − s·lr·(m̂ / (√v̂ + ε) + λp)",
    .min_inputs = 6,
    .max_inputs = 6,
    .infer = infer_adam,
    .evaluate = evaluate_adam,
    .positive_inputs = true};  // v and step

constinit const OpDef lamb_step_op{.name = "lamb_step",
                                   .formula = "d = m̂ / (√v̂ + ε) + λp; p ← p − s·lr·d·‖p‖ / ‖d‖",
                                   .min_inputs = 6,
                                   .max_inputs = 6,
                                   .infer = infer_lamb,
                                   .evaluate = evaluate_lamb,
                                   .positive_inputs = true};  // v and step

SgdStep sgd_step(Value param, Value grad, Value momentum, Value lr, const SgdOptions& options) {
  std::vector<Value> next = param.graph->append(sgd_step_op, {param, grad, momentum, lr},
                                                {{"momentum", options.momentum},
                                                 {"nesterov", options.nesterov},
                                                 {"weight_decay", options.weight_decay},
                                                 {"gradient_scale", options.gradient_scale},
                                                 {"rate_scale", options.rate_scale}});
  return {next[0], next[1]};
}

AdamStep adam_step(Value param, Value grad, Value m, Value v, Value lr, Value step,
                   const AdamOptions& options) {
  std::vector<Value> next =
      param.graph->append(adam_step_op, {param, grad, m, v, lr, step}, attributes_of(options));
  return {next[0], next[1], next[2]};
}

AdamStep lamb_step(Value param, Value grad, Value m, Value v, Value lr, Value step,
                   const LambOptions& options) {
  Attributes attributes = attributes_of(options.adam);
  attributes.set("max_trust_ratio", options.max_trust_ratio);
  std::vector<Value> next =
      param.graph->append(lamb_step_op, {param, grad, m, v, lr, step}, attributes);
  return {next[0], next[1], next[2]};
}

}  // namespace sigma1
