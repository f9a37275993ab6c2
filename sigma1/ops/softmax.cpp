#include "sigma1/ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "sigma1/numerics/softmax_moments.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

// log Σⱼ exp(m·xⱼ), with the largest taken out so that nothing overflows.
double log_sum_exp(const double* x, int64_t n, double multiplier) {
  double largest = multiplier * *std::max_element(x, x + n), sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += std::exp(multiplier * x[j] - largest);
  return largest + std::log(sum);
}

std::vector<TensorType> infer_softmax(const OpView& v) {
  expect_rank_at_least(v, 0, 1);
  double multiplier = v.attr<double>("multiplier");
  if (!(multiplier > 0) || std::isinf(multiplier)) {
    throw Error("multiplier: expected a positive number, got {}", multiplier);
  }
  return {v.in(0)};
}

void expect_choice(double choices) {
  if (choices > 1) return;
  throw Error("expected at least two logits: one alone has no gradient to scale");
}

// Table A.2 takes the output as 1/s throughout, so that s·softmax is a row of ones; so does a
// multiplier, which then only scales the gradient. Otherwise E[p²] and E‖J‖² are integrated, and
// the spread is around the mean 1/n.
Scales scale_softmax(const OpView& v, const ScaleContext& context) {
  auto n = static_cast<double>(v.in(0).dim(-1));
  double multiplier = v.attr<double>("multiplier");
  expect_choice(n);
  if (context.as_printed) return {n, {n / multiplier}};
  SoftmaxMoments moments = softmax_moments(v.in(0).dim(-1), multiplier);
  double mean = context.criterion == Criterion::std_dev ? 1 / n : 0;
  double variance = moments.p2 / n - mean * mean;
  return {rsqrt(variance), {rsqrt(moments.jacobian() / n) / multiplier}};
}

Grads grad_softmax(GradView& g) {
  Value x = g.x(0), dy = g.dy();
  return {g.graph().append_one(softmax_grad_op, {x, dy}, g.attributes())};
}

void evaluate_softmax(const EvalView& v) {
  double multiplier = v.attr<double>("multiplier");
  int64_t n = v.in(0).dim(-1);
  for (int64_t row = 0; row < v.out().count(); row += n) {
    double log_sum = log_sum_exp(v.in(0).data.data() + row, n, multiplier);
    for (int64_t i = row; i < row + n; ++i) {
      v.out()[i] = std::exp(multiplier * v.in(0)[i] - log_sum);
    }
  }
}

std::vector<TensorType> infer_softmax_grad(const OpView& v) {
  expect_shape(v, 1, v.in(0).shape);
  return infer_softmax(v);
}

// m · p · (dy − Σ p·dy)
void evaluate_softmax_grad(const EvalView& v) {
  double multiplier = v.attr<double>("multiplier");
  int64_t n = v.in(0).dim(-1);
  evaluate_softmax(v);
  for (int64_t row = 0; row < v.out().count(); row += n) {
    double mean = 0;
    for (int64_t i = row; i < row + n; ++i) mean += v.out()[i] * v.in(1)[i];
    for (int64_t i = row; i < row + n; ++i) v.out()[i] *= multiplier * (v.in(1)[i] - mean);
  }
}

bool takes_mean(const Attributes& attributes) {
  const auto& reduction = attributes.get<std::string>("reduction");
  if (reduction != "sum" && reduction != "mean") {
    throw Error("reduction: expected sum or mean, got '{}'", reduction);
  }
  return reduction == "mean";
}

Attribute reduction_name(LossReduction reduction) {
  return std::string(reduction == LossReduction::mean ? "mean" : "sum");
}

// Logits [rows, V], a target and perhaps a weight for each row.
void expect_rows(const OpView& v, size_t last_input) {
  expect_rank_at_least(v, 0, 1);
  expect_kind(v, 0, Kind::real);
  expect_kind(v, 1, Kind::index);
  Shape rows(v.in(0).shape.begin(), v.in(0).shape.end() - 1);
  for (size_t input = 1; input <= last_input; ++input) expect_shape(v, input, rows);
  if (last_input == 2) expect_kind(v, 2, Kind::real);
}

std::vector<TensorType> infer_softmax_xent(const OpView& v) {
  expect_rows(v, v.inputs.size() - 1);
  takes_mean(v.attributes);
  return {{Shape{}}};
}

// A row's gradient is p − y with y one-hot: its mean is 0 and E|p − y|² = E[P₂] − 2/V + 1. Table
// A.2 takes p as 1/V, so that P₂ = 1/V. Weights are taken as 1.
Scales scale_softmax_xent(const OpView& v, const ScaleContext& context) {
  auto vocabulary = static_cast<double>(v.in(0).dim(-1));
  expect_choice(vocabulary);
  double p2 = context.as_printed ? 1 / vocabulary : softmax_moments(v.in(0).dim(-1), 1).p2;
  double beta = rsqrt((p2 - 2 / vocabulary + 1) / vocabulary);
  if (takes_mean(v.attributes)) beta *= static_cast<double>(v.in(0).rows());
  return {1, {beta, 1, 1}};
}

Grads grad_softmax_xent(GradView& g) {
  std::vector<Value> inputs;
  for (size_t i = 0; i < g.input_count(); ++i) inputs.push_back(g.x(i));
  inputs.push_back(g.dy());
  Grads grads(g.input_count());
  grads[0] = g.graph().append_one(softmax_xent_grad_op, inputs, g.attributes());
  return grads;
}

// The target of a row, which must be one of the logits.
int64_t checked_target(const Tensor& targets, int64_t row, int64_t vocabulary) {
  if (0 <= targets[row] && targets[row] < static_cast<double>(vocabulary))
    return static_cast<int64_t>(targets[row]);
  throw Error("expected a target within [0, {}), got {}", vocabulary, targets[row]);
}

// Of each row, with weights where there are any; the sum of the losses, divided for the mean.
double sum_losses(const EvalView& v, bool weighted) {
  int64_t vocabulary = v.in(0).dim(-1), rows = v.in(1).count();
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const double* x = v.in(0).data.data() + row * vocabulary;
    double loss = log_sum_exp(x, vocabulary, 1) - x[checked_target(v.in(1), row, vocabulary)];
    sum += weighted ? v.in(2)[row] * loss : loss;
  }
  return takes_mean(v.attributes) ? sum / static_cast<double>(rows) : sum;
}

void fill_logit_grads(const EvalView& v, bool weighted, double dloss, Tensor& dlogits) {
  int64_t vocabulary = v.in(0).dim(-1), rows = v.in(1).count();
  if (takes_mean(v.attributes)) dloss /= static_cast<double>(rows);
  for (int64_t row = 0; row < rows; ++row) {
    const double* x = v.in(0).data.data() + row * vocabulary;
    double* dx = dlogits.data.data() + row * vocabulary;
    double drow = weighted ? v.in(2)[row] * dloss : dloss;
    double log_sum = log_sum_exp(x, vocabulary, 1);
    for (int64_t j = 0; j < vocabulary; ++j) dx[j] = drow * std::exp(x[j] - log_sum);
    dx[checked_target(v.in(1), row, vocabulary)] -= drow;
  }
}

void evaluate_softmax_xent(const EvalView& v) { v.out()[0] = sum_losses(v, v.inputs.size() == 3); }

std::vector<TensorType> infer_softmax_xent_grad(const OpView& v) {
  expect_rows(v, v.inputs.size() - 2);
  expect_shape(v, v.inputs.size() - 1, {});
  takes_mean(v.attributes);
  return {v.in(0)};
}

void evaluate_softmax_xent_grad(const EvalView& v) {
  fill_logit_grads(v, v.inputs.size() == 4, v.in(v.inputs.size() - 1)[0], v.out());
}

std::vector<TensorType> infer_softmax_xent_with_grad(const OpView& v) {
  return {infer_softmax_xent(v).front(), v.in(0)};
}

void evaluate_softmax_xent_with_grad(const EvalView& v) {
  bool weighted = v.inputs.size() == 3;
  v.out(0)[0] = sum_losses(v, weighted);
  fill_logit_grads(v, weighted, 1, v.out(1));
}

Role xent_role(const OpView&, size_t input) {
  return input == 0 ? Role::activation : input == 1 ? Role::index : Role::mask;
}

int64_t vocabulary_limit(const OpView& v, size_t) { return v.in(0).dim(-1); }

std::vector<TensorType> infer_mse(const OpView& v) {
  expect_shape(v, 1, v.in(0).shape);
  takes_mean(v.attributes);
  return {{Shape{}}};
}

// The gradient 2·(x − t) has the variance 4·(1 + 1).
Scales scale_mse(const OpView& v, const ScaleContext&) {
  double beta = rsqrt(8);
  if (takes_mean(v.attributes)) beta *= static_cast<double>(v.in(0).count());
  return {1, {beta, beta}};
}

Grads grad_mse(GradView& g) {
  Value x = g.x(0), target = g.x(1), dloss = g.dy();
  // The count divides the scalar: a difference may be stored, and keeps its scale.
  if (takes_mean(g.attributes())) dloss = scale(dloss, 1 / static_cast<double>(x.type().count()));
  Value difference = weighted_add({x, target}, {2, -2});
  Value dx = mul(difference, dloss);
  return {dx, scale(dx, -1)};
}

void evaluate_mse(const EvalView& v) {
  for (int64_t i = 0; i < v.in(0).count(); ++i) {
    double difference = v.in(0)[i] - v.in(1)[i];
    v.out()[0] += difference * difference;
  }
  if (takes_mean(v.attributes)) v.out()[0] /= static_cast<double>(v.in(0).count());
}

Attributes softmax_defaults(std::span<const TensorType>) { return {{"multiplier", 1.0}}; }

Attributes loss_defaults(std::span<const TensorType>) {
  return {{"reduction", reduction_name(LossReduction::sum)}};
}

}  // namespace

constinit const OpDef softmax_op{.name = "softmax",
                                 .formula = "e^(m x_i) / Σ_j e^(m x_j); α=s, β=s/m",
                                 .infer = infer_softmax,
                                 .scale = scale_softmax,
                                 .grad = grad_softmax,
                                 .evaluate = evaluate_softmax,
                                 .defaults = softmax_defaults};

constinit const OpDef softmax_grad_op{.name = "softmax_grad",
                                      .formula = "m p (dy − Σ p dy), p = softmax(m x)",
                                      .min_inputs = 2,
                                      .max_inputs = 2,
                                      .infer = infer_softmax_grad,
                                      .evaluate = evaluate_softmax_grad,
                                      .linear_in = last_input};

constinit const OpDef softmax_xent_op{
    .name = "softmax_xent",
    .formula = "−Σ_rows w log softmax(x)_t, or /rows; α=1, β=V/√(V−1), times rows",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_softmax_xent,
    .scale = scale_softmax_xent,
    .grad = grad_softmax_xent,
    .evaluate = evaluate_softmax_xent,
    .role = xent_role,
    .index_limit = vocabulary_limit,
    .defaults = loss_defaults};

constinit const OpDef softmax_xent_grad_op{.name = "softmax_xent_grad",
                                           .formula = "dloss w (softmax(x) − onehot(t)), or /rows",
                                           .min_inputs = 3,
                                           .max_inputs = 4,
                                           .infer = infer_softmax_xent_grad,
                                           .evaluate = evaluate_softmax_xent_grad,
                                           .index_limit = vocabulary_limit,
                                           .linear_in = last_input};

constinit const OpDef softmax_xent_with_grad_op{
    .name = "softmax_xent_with_grad",
    .formula = "−Σ_rows w log softmax(x)_t and w (softmax(x) − onehot(t)), or /rows",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_softmax_xent_with_grad,
    .evaluate = evaluate_softmax_xent_with_grad,
    .role = xent_role,
    .index_limit = vocabulary_limit};

constinit const OpDef mse_op{.name = "mse",
                             .formula = "Σ (x − t)², or /count; α=1, β=8^-½, times count",
                             .min_inputs = 2,
                             .max_inputs = 2,
                             .infer = infer_mse,
                             .scale = scale_mse,
                             .grad = grad_mse,
                             .evaluate = evaluate_mse,
                             .defaults = loss_defaults};

Value softmax(Value x, double multiplier) {
  return x.graph->append_one(softmax_op, {x}, {{"multiplier", multiplier}});
}

Value softmax_xent(Value logits, Value targets, Value weights, LossReduction reduction) {
  std::vector<Value> inputs{logits, targets};
  if (weights) inputs.push_back(weights);
  return logits.graph->append_one(softmax_xent_op, inputs,
                                  {{"reduction", reduction_name(reduction)}});
}

Value mse(Value x, Value target, LossReduction reduction) {
  return x.graph->append_one(mse_op, {x, target}, {{"reduction", reduction_name(reduction)}});
}

}  // namespace sigma1
