#include <cmath>

#include "sigma1/analysis/cut_edges.h"
#include "sigma1/base/error.h"
#include "sigma1/passes/scaling.h"

namespace sigma1 {

double combine_factors(const std::vector<double>& factors, Mean mean) {
  auto count = static_cast<double>(factors.size());
  double sum = 0;
  switch (mean) {
    case Mean::geometric:
      for (double factor : factors) sum += std::log(factor);
      return std::exp(sum / count);
    case Mean::arithmetic:
      for (double factor : factors) sum += factor;
      return sum / count;
    case Mean::harmonic:
      for (double factor : factors) sum += 1 / factor;
      return count / sum;
    case Mean::to_output:
      return factors.front();
  }
  throw Bug("unknown Mean");
}

Mean parse_mean(std::string_view name) {
  if (name == "geometric") return Mean::geometric;
  if (name == "arithmetic") return Mean::arithmetic;
  if (name == "harmonic") return Mean::harmonic;
  if (name == "to-output") return Mean::to_output;
  throw Error("mean: expected geometric, arithmetic, harmonic or to-output, got '{}'", name);
}

void constrain(Graph& graph, Mean mean) {
  GradientEdges edges(graph);
  std::vector<bool> is_cut = cut_edges(graph, edges);
  for (int i = 0; i < graph.size(); ++i) {
    Node& node = graph.node(i);
    if (node.pinned) continue;
    std::vector<size_t> constrained;
    std::vector<double> factors{node.alpha};
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      int edge = edges.index_of(i, input);
      if (edge < 0 || is_cut[static_cast<size_t>(edge)]) continue;
      constrained.push_back(input);
      factors.push_back(node.beta[input]);
    }
    if (constrained.empty()) continue;
    node.alpha = combine_factors(factors, mean);
    for (size_t input : constrained) node.beta[input] = node.alpha;
  }
}

}  // namespace sigma1
