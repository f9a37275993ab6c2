#include <cmath>
#include <unordered_map>

#include "sigma1/analysis/gradient_edges.h"
#include "sigma1/passes/scaling.h"

namespace sigma1 {
namespace {

// The scale of the true gradient that reaches each node, as the mean square over its outputs.
class GradientScales {
 public:
  explicit GradientScales(const Graph& graph) : graph_(graph), squares_(graph.nodes().size()) {}

  // A consumer's share lands on one output; the others of that node stay untouched by it.
  void add_share(Value value, double scale) {
    const Node& node = graph_.node(value.node);
    int64_t total = 0;
    for (const TensorType& output : node.outputs) total += output.count();
    double part = static_cast<double>(value.type().count()) / static_cast<double>(total);
    squares_[static_cast<size_t>(value.node)] += part * scale * scale;
  }

  // A consumer pinned by hand leaves its producer no choice.
  void force(int node, double potential) { forced_[node] = potential; }

  // 1 for a node that no gradient reaches: an output, where the walk begins.
  double potential(int node) const {
    if (auto forced = forced_.find(node); forced != forced_.end()) return forced->second;
    double square = squares_[static_cast<size_t>(node)];
    return square > 0 ? 1 / std::sqrt(square) : 1;
  }

 private:
  const Graph& graph_;
  std::vector<double> squares_;
  std::unordered_map<int, double> forced_;
};

}  // namespace

void exact_betas(Graph& graph) {
  GradientEdges edges(graph);
  GradientScales scales(graph);
  for (int i = graph.size() - 1; i >= 0; --i) {
    const Node& node = graph.node(i);
    double s = scales.potential(i);
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (!edges.contains(i, input)) continue;
      double share = node.alpha / (node.beta[input] * s);
      scales.add_share(node.inputs[input], share);
      if (node.pinned) scales.force(node.inputs[input].node, 1 / share);
    }
  }
  for (const Edge& edge : edges.edges()) {
    Node& consumer = graph.node(edge.to);
    if (consumer.pinned) continue;
    consumer.beta[static_cast<size_t>(edge.input)] =
        consumer.alpha * scales.potential(edge.from) / scales.potential(edge.to);
  }
}

}  // namespace sigma1
