// The end of a graph where its losses are made and added: single numbers that people read. Unit
// scaling has nothing to keep in range there, and a factor would change what the losses weigh
// beside each other.
#pragma once

#include <vector>

#include "sigma1/analysis/gradient_edges.h"

namespace sigma1 {

class LossNodes {
 public:
  LossNodes(const Graph& graph, const GradientEdges& edges);

  // Whether the node's one output is one number and gradients come to it from such nodes alone. No
  // node that is pinned is one of these.
  bool contains(int node) const { return contains_[static_cast<size_t>(node)]; }
  // Whether it is made of losses alone.
  bool is_sum(int node) const { return is_sum_[static_cast<size_t>(node)]; }

 private:
  std::vector<bool> contains_, is_sum_;
};

}  // namespace sigma1
