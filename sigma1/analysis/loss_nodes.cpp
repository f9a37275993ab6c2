#include "sigma1/analysis/loss_nodes.h"

namespace sigma1 {
namespace {

bool can_be_loss(const Node& node) {
  return node.outputs.size() == 1 && node.outputs.front().count() == 1 && !node.pinned;
}

}  // namespace

LossNodes::LossNodes(const Graph& graph, const GradientEdges& edges)
    : contains_(graph.nodes().size()), is_sum_(graph.nodes().size()) {
  for (const Edge& edge : edges.edges()) {
    auto node = static_cast<size_t>(edge.to);
    contains_[node] = is_sum_[node] = can_be_loss(graph.node(edge.to));
  }
  // Edges are ordered by the node they enter: from the end, each node is known before those it
  // reads.
  for (auto edge = edges.edges().rbegin(); edge != edges.edges().rend(); ++edge) {
    if (!contains(edge->to)) contains_[static_cast<size_t>(edge->from)] = false;
  }
  for (const Edge& edge : edges.edges()) {
    auto node = static_cast<size_t>(edge.to);
    is_sum_[node] = is_sum_[node] && contains(edge.to) && contains(edge.from);
  }
}

}  // namespace sigma1
