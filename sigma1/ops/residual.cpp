#include "sigma1/ops/residual.h"

#include <cmath>

#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

constexpr size_t kAnyNumber = 1'000'000;

std::vector<TensorType> infer_add(const OpView& v) {
  const Shape& whole = v.in(0).shape;
  for (size_t i = 1; i < v.inputs.size(); ++i) {
    const Shape& part = v.in(i).shape;
    if (part.size() > whole.size() || !std::equal(part.rbegin(), part.rend(), whole.rbegin())) {
      throw Error("input {}: expected shape {} or its last axes, got {}", i, to_string(whole),
                  to_string(part));
    }
  }
  return {v.in(0)};
}

std::vector<TensorType> infer_weighted_add(const OpView& v) {
  size_t weights = v.attr<std::vector<double>>("weights").size();
  if (weights != v.inputs.size()) {
    throw Error("expected a weight for each of {} terms, got {}", v.inputs.size(), weights);
  }
  return infer_add(v);
}

// Table A.2: α = (Σγ²)^-½ and β_i = 1/γ_i; a shorter term's gradient is a sum of rows besides. A
// term of weight 0 has no gradient to scale.
Scales weighted_scales(const OpView& v, const std::vector<double>& weights) {
  Scales scales{0, {}};
  double sum_of_squares = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum_of_squares += weights[i] * weights[i];
    const int64_t rows = v.in(0).count() / v.in(i).count();
    scales.beta.push_back(
        weights[i] == 0 ? 1 : rsqrt(static_cast<double>(rows)) / std::fabs(weights[i]));
  }
  scales.alpha = rsqrt(sum_of_squares);
  return scales;
}

Scales scale_add(const OpView& v, const ScaleContext&) {
  return weighted_scales(v, std::vector<double>(v.inputs.size(), 1.0));
}

Scales scale_weighted_add(const OpView& v, const ScaleContext&) {
  return weighted_scales(v, v.attr<std::vector<double>>("weights"));
}

Grads weighted_grads(GradView& g, const std::vector<double>& weights) {
  Grads grads;
  for (size_t i = 0; i < weights.size(); ++i) {
    Value summed = sum_to_shape(g.dy(), g.x(i).shape());
    grads.push_back(weights[i] == 1 ? summed : scale(summed, weights[i]));
  }
  return grads;
}

Grads grad_add(GradView& g) { return weighted_grads(g, std::vector<double>(g.input_count(), 1.0)); }

Grads grad_weighted_add(GradView& g) {
  return weighted_grads(g, g.attr<std::vector<double>>("weights"));
}

void evaluate_add(const EvalView& v) {
  for (const Tensor* term : v.inputs) {
    for (int64_t i = 0; i < v.out().count(); ++i) v.out()[i] += (*term)[i % term->count()];
  }
}

void evaluate_weighted_add(const EvalView& v) {
  const auto& weights = v.attr<std::vector<double>>("weights");
  for (size_t term = 0; term < weights.size(); ++term) {
    const Tensor& x = v.in(term);
    for (int64_t i = 0; i < v.out().count(); ++i) v.out()[i] += weights[term] * x[i % x.count()];
  }
}

Attributes equal_weights(std::span<const TensorType> inputs) {
  return {{"weights", std::vector<double>(inputs.size(), 1.0)}};
}

}  // namespace

constinit const OpDef add_op{.name = "add",
                             .formula = "x_1 + … + x_n; α=n^-½, β=1",
                             .min_inputs = 1,
                             .max_inputs = kAnyNumber,
                             .infer = infer_add,
                             .scale = scale_add,
                             .grad = grad_add,
                             .evaluate = evaluate_add};

constinit const OpDef weighted_add_op{.name = "weighted_add",
                                      .formula = "Σ γ_i x_i; α=(Σγ_i²)^-½, β_i=1/γ_i",
                                      .min_inputs = 1,
                                      .max_inputs = kAnyNumber,
                                      .infer = infer_weighted_add,
                                      .scale = scale_weighted_add,
                                      .grad = grad_weighted_add,
                                      .evaluate = evaluate_weighted_add,
                                      .defaults = equal_weights};

Value add(std::vector<Value> terms) {
  if (terms.empty()) throw Error("add: expected at least one term");
  Graph& graph = *terms.front().graph;
  return graph.append_one(add_op, std::move(terms));
}

Value weighted_add(std::vector<Value> terms, std::vector<double> weights) {
  if (terms.empty()) throw Error("weighted_add: expected at least one term");
  Graph& graph = *terms.front().graph;
  return graph.append_one(weighted_add_op, std::move(terms), {{"weights", std::move(weights)}});
}

}  // namespace sigma1
