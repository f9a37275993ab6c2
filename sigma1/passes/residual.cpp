#include <cmath>
#include <map>
#include <set>

#include "sigma1/analysis/gradient_edges.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/passes/scaling.h"

namespace sigma1 {
namespace {

// nn's residual() gives a split and its join the same label.
std::string label_of(const Node& node) { return node.attributes.get_or("residual", std::string()); }

// The nodes of a graph with the edges that carry a gradient, taken as undirected.
class Neighbours {
 public:
  explicit Neighbours(const Graph& graph) : by_node_(graph.nodes().size()) {
    GradientEdges edges(graph);
    for (const Edge& edge : edges.edges()) {
      by_node_[static_cast<size_t>(edge.from)].push_back(edge);
      by_node_[static_cast<size_t>(edge.to)].push_back(edge);
    }
  }

  // Whether the branch from `split` to input 1 of `join` touches the rest of the graph nowhere
  // else. A parameter shared with the outside is such a place: there the branch's gradients would
  // meet others of another scale, and the rewrite would make their sum wrong.
  bool is_branch_separate(int split, int join) const {
    std::vector<int> found{split};
    std::set<int> seen{split};
    while (!found.empty()) {
      int here = found.back();
      found.pop_back();
      for (const Edge& edge : by_node_[static_cast<size_t>(here)]) {
        bool enters = edge.to == split, leaves = edge.to == join && edge.input == 1;
        if (enters || leaves) continue;
        int there = edge.from == here ? edge.to : edge.from;
        if (there == join || feeds(there, split)) return false;
        if (seen.insert(there).second) found.push_back(there);
      }
    }
    return !seen.contains(join);
  }

 private:
  bool feeds(int node, int split) const {
    for (const Edge& edge : by_node_[static_cast<size_t>(split)]) {
      if (edge.to == split && edge.from == node) return true;
    }
    return false;
  }

  std::vector<std::vector<Edge>> by_node_;
};

// y = a(γ₁x + γ₂f(x)) with a = (γ₁²+γ₂²)^-½. The skip keeps α = β; the branch's γ₂a moves from the
// join's gradient, where it would shrink everything inside f, to the split's.
void set_factors(Node& split, Node& join) {
  const auto& weights = join.attributes.get<std::vector<double>>("weights");
  double skip = weights[0], branch = weights[1];
  if (branch == 0) return;
  join.alpha = 1 / std::hypot(skip, branch);
  join.beta = {join.alpha, 1 / std::fabs(branch)};
  split.alpha = 1;
  split.beta = {std::fabs(branch) * join.alpha};
  split.pinned = join.pinned = true;
}

}  // namespace

void residual(Graph& graph) {
  Neighbours neighbours(graph);
  std::map<std::string, int> splits;
  for (int i = 0; i < graph.size(); ++i) {
    Node& node = graph.node(i);
    std::string label = label_of(node);
    if (label.empty()) continue;
    if (node.op == &identity_op) {
      splits[label] = i;
    } else if (node.op == &weighted_add_op) {
      auto split = splits.find(label);
      if (split == splits.end()) throw Bug("residual join {} has no split", node.name);
      if (neighbours.is_branch_separate(split->second, i)) {
        set_factors(graph.node(split->second), node);
      }
    }
  }
}

}  // namespace sigma1
