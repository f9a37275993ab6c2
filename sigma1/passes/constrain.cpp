#include <cmath>

#include "sigma1/analysis/cut_edges.h"
#include "sigma1/analysis/loss_nodes.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/shape.h"
#include "sigma1/passes/alignment.h"
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

namespace {

// Whether the output is a part of the first input, as it is: no factor may then change it for the
// sake of a gradient that is zero elsewhere.
bool picks(const OpDef* op) {
  return op == &embedding_op || op == &gather_rows_op || op == &slice_op;
}

class Constraints {
 public:
  Constraints(Graph& graph, Mean mean)
      : graph_(graph),
        mean_(mean),
        edges_(graph),
        is_cut_(cut_edges(graph, edges_)),
        losses_(graph, edges_) {}

  void apply() {
    std::vector<double> into_losses;  // β/α
    for (int i = 0; i < graph_.size(); ++i) {
      if (!losses_.contains(i)) {
        constrain(graph_.node(i), constrained_inputs(i));
        continue;
      }
      const Node& node = graph_.node(i);
      for (size_t input : constrained_inputs(i)) {
        if (enters_losses(i, input)) into_losses.push_back(node.beta[input] / node.alpha);
      }
    }
    if (into_losses.empty()) return;
    double common = combine_factors(into_losses, mean_);
    for (int i = 0; i < graph_.size(); ++i) {
      if (losses_.contains(i)) weigh_alike(i, common);
    }
  }

 private:
  std::vector<size_t> constrained_inputs(int i) const {
    std::vector<size_t> constrained;
    for (size_t input = 0; input < graph_.node(i).inputs.size(); ++input) {
      int edge = edges_.index_of(i, input);
      if (edge >= 0 && !is_cut_[static_cast<size_t>(edge)]) constrained.push_back(input);
    }
    return constrained;
  }

  bool enters_losses(int i, size_t input) const {
    return !losses_.contains(graph_.node(i).inputs[input].node);
  }

  void constrain(Node& node, const std::vector<size_t>& inputs) const {
    if (node.pinned || inputs.empty()) return;
    double gain = gain_of(node);  // is no part of the compromise
    std::vector<double> factors{node.alpha / gain};
    for (size_t input : inputs) factors.push_back(node.beta[input]);
    if (!picks(node.op)) node.alpha = gain * combine_factors(factors, mean_);
    for (size_t input : inputs) node.beta[input] = node.alpha;
  }

  // Every gradient that leaves the losses is then `common` times the plain one.
  void weigh_alike(int i, double common) {
    Node& node = graph_.node(i);
    for (size_t input : constrained_inputs(i)) {
      node.beta[input] = enters_losses(i, input) ? node.alpha * common : node.alpha;
    }
  }

  Graph& graph_;
  Mean mean_;
  GradientEdges edges_;
  std::vector<bool> is_cut_;
  LossNodes losses_;
};

}  // namespace

void constrain(Graph& graph, Mean mean) { Constraints(graph, mean).apply(); }

}  // namespace sigma1
