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
