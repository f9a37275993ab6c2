#include "sigma1/nn/residual.h"

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"

namespace sigma1 {

ResidualWeights default_residual() { return {1, 1}; }

ResidualWeights fixed_residual(double tau) {
  if (!(tau >= 0 && tau <= 1)) throw Error("tau: expected a number from 0 to 1, got {}", tau);
  return {std::sqrt(1 - tau), std::sqrt(tau)};
}

ResidualWeights running_mean_residual(int64_t l) {
  if (l < 0) throw Error("running mean: expected a layer index of 0 or more, got {}", l);
  auto layers = static_cast<double>(l);
  return {std::sqrt(layers / (layers + 1)), std::sqrt(1 / (layers + 1))};
}

ResidualWeights u_mup_residual(int64_t i, int64_t layers, double multiplier,
                               double attention_ratio) {
  double other = multiplier * std::sqrt(2 / (1 + attention_ratio * attention_ratio));
  double attention = attention_ratio * other;
  const int64_t others_before = i / 2, attentions_before = i - others_before;
  auto attentions = static_cast<double>(attentions_before),
       others = static_cast<double>(others_before);
  double before =
      static_cast<double>(layers) / 2 + attentions * attention * attention + others * other * other;
  double tau = (i % 2 == 0 ? attention : other) / std::sqrt(before), norm = std::hypot(1, tau);
  return {1 / norm, tau / norm};
}

Value residual(Value x, ResidualWeights weights, const std::function<Value(Value)>& branch) {
  Graph& graph = *x.graph;
  Value split = identity(x);
  Value transformed = branch(split);
  Value join = weighted_add({x, transformed}, {weights.skip, weights.branch});
  std::string label = graph.node(split.node).name;
  graph.node(split.node).attributes.set("residual", label);
  graph.node(join.node).attributes.set("residual", label);
  return join;
}

}  // namespace sigma1
