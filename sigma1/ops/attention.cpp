#include "sigma1/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "sigma1/numerics/softmax_moments.h"
#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

// Inputs: q, k, v, then relative and mask where there are any, then dy in the gradient.
struct Settings {
  bool causal, has_relative, has_mask;
  double multiplier;
  int64_t heads;
  size_t relative = 3;

  explicit Settings(const Attributes& attributes)
      : causal(attributes.get<bool>("causal")),
        has_relative(attributes.get<bool>("has_relative")),
        has_mask(attributes.get<bool>("has_mask")),
        multiplier(attributes.get<double>("multiplier")),
        heads(attributes.get<int64_t>("heads")) {}
  size_t mask() const { return has_relative ? 4 : 3; }
  size_t input_count() const { return 3 + (has_relative ? 1 : 0) + (has_mask ? 1 : 0); }
};

struct AttentionDims {
  int64_t batch, heads, tq, tk, d;

  int64_t width() const { return heads * d; }
};

void expect_settings(const Settings& settings, const AttentionDims& dims) {
  if (settings.causal && dims.tq != dims.tk) {
    throw Error("causal: expected as many queries as keys, got {} and {}", dims.tq, dims.tk);
  }
  if (settings.has_relative && !settings.causal) {
    throw Error("relative: expected causal attention, whose distances are not negative");
  }
  if (!(settings.multiplier > 0) || std::isinf(settings.multiplier)) {
    throw Error("multiplier: expected a positive number, got {}", settings.multiplier);
  }
}

AttentionDims attention_dims(const OpView& v) {
  for (size_t i : {0, 1}) {
    if (v.in(i).rank() == 3) continue;
    throw Error("input {}: expected [batch, length, heads·d], got {}", i, to_string(v.in(i).shape));
  }
  const TensorType &q = v.in(0), &k = v.in(1);
  auto heads = v.attr<int64_t>("heads");
  if (heads < 1 || q.dim(2) % heads != 0) {
    throw Error("heads: expected a divisor of the width {}, got {}", q.dim(2), heads);
  }
  return {q.dim(0), heads, q.dim(1), k.dim(1), q.dim(2) / heads};
}

void check_inputs(const OpView& v, size_t extra_inputs) {
  Settings settings(v.attributes);
  size_t expected = settings.input_count() + extra_inputs;
  if (v.inputs.size() != expected) {
    throw Error("expected {} inputs, got {}", expected, v.inputs.size());
  }
  AttentionDims dims = attention_dims(v);
  expect_settings(settings, dims);
  expect_shape(v, 1, {dims.batch, dims.tk, dims.width()});
  expect_shape(v, 2, {dims.batch, dims.tk, dims.width()});
  if (settings.has_relative) expect_shape(v, settings.relative, {dims.tk, dims.width()});
  if (settings.has_mask) expect_shape(v, settings.mask(), {dims.batch, dims.tk});
}

std::vector<TensorType> infer_attention(const OpView& v) {
  check_inputs(v, 0);
  return {v.in(0)};
}

Role attention_role(const OpView& v, size_t input) {
  Settings settings(v.attributes);
  if (settings.has_mask && input == settings.mask()) return Role::mask;
  return settings.has_relative && input == settings.relative ? Role::weight : Role::activation;
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
  Settings settings(v.attributes);
  auto [batch, heads, tq, tk, d] = attention_dims(v);
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

// One query of one head: where its vectors stand and what it attends to.
struct Row {
  int64_t batch, head, i;
  int64_t query;          // of q's and y's first element
  int64_t first_key;      // of k's and v's first element
  std::vector<double> p;  // by key; 0 where masked
};

int64_t relative_at(const Row& row, int64_t j, const AttentionDims& dims) {
  return (row.i - j) * dims.width() + row.head * dims.d;
}

void attend(const EvalView& v, const Settings& settings, const AttentionDims& dims, Row& row) {
  auto [batch, heads, tq, tk, d] = dims;
  double factor = settings.multiplier * rsqrt(static_cast<double>(d));
  row.p.assign(static_cast<size_t>(tk), -INFINITY);
  for (int64_t j = 0; j < (settings.causal ? row.i + 1 : tk); ++j) {
    if (settings.has_mask && !(v.in(settings.mask())[row.batch * tk + j] > 0)) continue;
    double dot = 0;
    for (int64_t c = 0; c < d; ++c) {
      double key = v.in(1)[row.first_key + j * dims.width() + c];
      if (settings.has_relative) {
        key += v.in(settings.relative)[relative_at(row, j, dims) + c];
      }
      dot += v.in(0)[row.query + c] * key;
    }
    row.p[static_cast<size_t>(j)] = factor * dot;
  }
  double largest = *std::max_element(row.p.begin(), row.p.end()), sum = 0;
  if (largest == -INFINITY) largest = 0;
  for (double& p : row.p) sum += p = std::exp(p - largest);
  if (sum == 0) return;
  for (double& p : row.p) p /= sum;
}

template <class Visit>
void for_each_row(const EvalView& v, const Settings& settings, Visit visit) {
  std::vector<TensorType> types{{v.in(0).shape}, {v.in(1).shape}};
  AttentionDims dims = attention_dims({types, v.attributes});
  auto [batch, heads, tq, tk, d] = dims;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < tq; ++i) {
        int64_t width = dims.width();
        Row row{b, h, i, (b * tq + i) * width + h * d, b * tk * width + h * d, {}};
        attend(v, settings, dims, row);
        visit(row, dims);
      }
    }
  }
}

void evaluate_attention(const EvalView& v) {
  for_each_row(v, Settings(v.attributes), [&](const Row& row, const AttentionDims& dims) {
    for (int64_t j = 0; j < dims.tk; ++j) {
      double p = row.p[static_cast<size_t>(j)];
      for (int64_t c = 0; c < dims.d; ++c) {
        v.out()[row.query + c] += p * v.in(2)[row.first_key + j * dims.width() + c];
      }
    }
  });
}

std::vector<TensorType> infer_attention_grad(const OpView& v) {
  check_inputs(v, 1);
  expect_shape(v, v.inputs.size() - 1, v.in(0).shape);
  std::vector<TensorType> outputs{v.in(0), v.in(1), v.in(2)};
  Settings settings(v.attributes);
  if (settings.has_relative) outputs.push_back(v.in(settings.relative));
  return outputs;
}

void evaluate_attention_grad(const EvalView& v) {
  Settings settings(v.attributes);
  const Tensor& dy = v.in(settings.input_count());
  Tensor &dq = v.out(0), &dk = v.out(1), &dv = v.out(2);
  for_each_row(v, settings, [&](const Row& row, const AttentionDims& dims) {
    int64_t tk = dims.tk, d = dims.d, width = dims.width();
    std::vector<double> dp(row.p.size());
    double mean = 0;
    for (int64_t j = 0; j < tk; ++j) {
      auto key = static_cast<size_t>(j);
      for (int64_t c = 0; c < d; ++c) {
        dp[key] += dy[row.query + c] * v.in(2)[row.first_key + j * width + c];
        dv[row.first_key + j * width + c] += row.p[key] * dy[row.query + c];
      }
      mean += row.p[key] * dp[key];
    }
    double factor = settings.multiplier * rsqrt(static_cast<double>(d));
    for (int64_t j = 0; j < (settings.causal ? row.i + 1 : tk); ++j) {
      auto key = static_cast<size_t>(j);
      double ddot = factor * row.p[key] * (dp[key] - mean);
      for (int64_t c = 0; c < d; ++c) {
        int64_t at_key = row.first_key + j * width + c;
        dq[row.query + c] += ddot * v.in(1)[at_key];
        dk[at_key] += ddot * v.in(0)[row.query + c];
        if (!settings.has_relative) continue;
        int64_t at_relative = relative_at(row, j, dims) + c;
        dq[row.query + c] += ddot * v.in(settings.relative)[at_relative];
        v.out(3)[at_relative] += ddot * v.in(0)[row.query + c];
      }
    }
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

// The probabilities, which multiply v, stay inside.
bool multiplies_unless_mask(const OpView& v, size_t input) {
  return attention_role(v, input) != Role::mask;
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
    .multiplies = multiplies_unless_mask};

constinit const OpDef attention_grad_op{.name = "attention_grad",
                                        .formula = "the gradients of q, k, v and any R",
                                        .min_inputs = 4,
                                        .max_inputs = 6,
                                        .infer = infer_attention_grad,
                                        .evaluate = evaluate_attention_grad,
                                        .role = attention_role,
                                        .linear_in = last_input,
                                        .multiplies = multiplies_unless_mask};

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
