#include "sigma1/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sigma1/numerics/softmax_moments.h"
#include "sigma1/ops/attention_rows.h"
#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

std::vector<TensorType> infer_attention(const OpView& v) {
  check_attention_inputs(v, 0);
  return {v.in(0)};
}

// A fourth input alone is the relative positions where its shape is theirs, else the mask.
Attributes attention_defaults(std::span<const TensorType> inputs) {
  bool has_relative = inputs.size() > 3 && inputs[1].rank() == 3 &&
                      inputs[3].shape == Shape{inputs[1].dim(1), inputs[1].dim(2)};
  bool has_mask = inputs.size() > (has_relative ? 4 : 3);
  return {{"heads", int64_t{1}},
          {"causal", has_relative},
          {"multiplier", 1.0},
          {"has_relative", has_relative},
          {"has_mask", has_mask}};
}

// The mean squares of output and gradients, all of unit inputs.
struct MeanSquares {
  double y = 0, dq = 0, dk = 0;
};

// Given q, the logits of its row are exactly normal and independent, with the variance s²·|q|²/d.
// |q|²/d = eʷ is chi-squared over its d degrees of freedom, averaged over here by the trapezoidal
// rule in w, whose density is exp(d/2·(w − eʷ)). The gradient of logit j is pⱼ·(gⱼ − Σp·g) with
// g = dy·v of variance d. It meets in dq the keys, of which only the part along q, one of d, knows
// p; in dk the query itself, whose mean square is eʷ.
MeanSquares mean_squares(int64_t keys, bool causal, double s, int64_t d) {
  constexpr double kNegligible = 1e-7;
  auto dims = static_cast<double>(d);
  MeanSquares sums;
  double total = 0;
  auto add = [&](double w) {
    double size = std::exp(w), weight = std::exp(dims / 2 * (w - size + 1));
    if (weight < kNegligible) return false;
    double spread = s * std::sqrt(size);
    SoftmaxMoments moments =
        causal ? causal_softmax_moments(keys, spread) : softmax_moments(keys, spread);
    double across = (dims - 1) / dims, along = 1 / dims;
    sums.y += weight * moments.p2;
    sums.dq += weight * s * s * (across * moments.jacobian() + along * moments.radial);
    sums.dk += weight * s * s * size * moments.jacobian();
    total += weight;
    return true;
  };
  double step = 0.75 * std::sqrt(2 / dims);  // in standard deviations of w, for large d
  for (int i = 0; add(step * i);) ++i;
  for (int i = -1; add(step * i);) --i;
  return {sums.y / total, sums.dq / total, sums.dk / total};
}

// Nothing is approximated for unit normal inputs; padding, and queries that no gradient reaches,
// are known where the node was told of them. Relative positions double the variance of the logits;
// each of key and position receives half of what dq does.
Scales scale_attention(const OpView& v, const ScaleContext&) {
  AttentionSettings settings(v.attributes);
  auto [batch, heads, tq, tk, d] = attention_sizes(v);
  if (tk < 2) throw Error("expected at least two keys: one alone leaves nothing to attend by");
  double terms = settings.has_relative ? 2 : 1;
  double s = settings.multiplier * std::sqrt(terms);
  double filled = v.attributes.get_or(kFilledKeys, 1.0) * static_cast<double>(tk);
  int64_t keys = std::max<int64_t>(2, std::llround(filled));
  auto [y, dq, dk] = mean_squares(keys, settings.causal, s, d);
  double queries = v.attributes.get_or(kFilledQueries, 1.0) * static_cast<double>(tq);
  double queries_per_key = queries / static_cast<double>(keys);
  double beta_k = rsqrt(queries_per_key * dk / terms);
  Scales scales{rsqrt(y), {rsqrt(dq), beta_k, rsqrt(queries_per_key * y)}};
  if (settings.has_relative) scales.beta.push_back(beta_k * rsqrt(static_cast<double>(batch)));
  if (settings.has_mask) scales.beta.push_back(1);
  return scales;
}

void evaluate_attention(const EvalView& v) {
  AttentionReference attention(v);
  attention.for_each_row([&](const AttentionRow& row) {
    attention.add_result(row, row.probabilities(row.log_sum()), v.out());
  });
}

std::vector<TensorType> infer_attention_grad(const OpView& v) {
  check_attention_inputs(v, 1);
  expect_shape(v, v.inputs.size() - 1, v.in(0).shape);
  std::vector<TensorType> outputs{v.in(0), v.in(1), v.in(2)};
  AttentionSettings settings(v.attributes);
  if (settings.has_relative) outputs.push_back(v.in(settings.relative));
  return outputs;
}

void evaluate_attention_grad(const EvalView& v) {
  AttentionReference attention(v);
  attention.for_each_row([&](const AttentionRow& row) {
    std::vector<double> p = row.probabilities(row.log_sum());
    std::vector<double> dp = attention.probability_grads(row);
    attention.add_grads(row, p, dp, std::inner_product(p.begin(), p.end(), dp.begin(), 0.0));
  });
}

Grads grad_attention(GradView& g) {
  Value dy = g.dy();
  std::vector<Value> inputs;
  for (size_t i = 0; i < g.input_count(); ++i) inputs.push_back(g.x(i));
  inputs.push_back(dy);
  // In the order of the inputs, of which only the last, the mask, can lack one.
  Grads grads = g.graph().append(attention_grad_op, inputs, g.attributes());
  grads.resize(g.input_count());
  return grads;
}

}  // namespace

constinit const OpDef attention_op{
    .name = "attention",
    .formula = "softmax(m d^-½ Q(K + R)ᵀ) V, R by distance or none; by quadrature",
    .min_inputs = 3,
    .max_inputs = 5,
    .infer = infer_attention,
    .scale = scale_attention,
    .grad = grad_attention,
    .evaluate = evaluate_attention,
    .role = attention_role,
    .defaults = attention_defaults,
    .linear_in = [](const OpView&, size_t input) { return input == 2; },
    .multiplies = attention_multiplies};

constinit const OpDef attention_grad_op{.name = "attention_grad",
                                        .formula = "the gradients of q, k, v and any R",
                                        .min_inputs = 4,
                                        .max_inputs = 6,
                                        .infer = infer_attention_grad,
                                        .evaluate = evaluate_attention_grad,
                                        .role = attention_role,
                                        .linear_in = last_input,
                                        .multiplies = attention_multiplies};

Value attention(Value q, Value k, Value v, const AttentionOptions& options) {
  std::vector<Value> inputs{q, k, v};
  if (options.relative) inputs.push_back(options.relative);
  if (options.mask) inputs.push_back(options.mask);
  return q.graph->append_one(attention_op, inputs,
                             {{"heads", options.heads},
                              {"causal", options.causal},
                              {"multiplier", options.multiplier},
                              {"has_relative", bool(options.relative)},
                              {"has_mask", bool(options.mask)}});
}

}  // namespace sigma1
