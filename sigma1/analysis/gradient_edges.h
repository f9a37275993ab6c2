// Which edges of a graph carry a gradient: the graph that the theory of scaling speaks about. Token
// ids, masks, data that needs no gradient and branches that reach no output are left out.
#pragma once

#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// Input `input` of node `to` is an output of node `from`.
struct Edge {
  int from, to, input;
};

class GradientEdges {
 public:
  explicit GradientEdges(const Graph& graph);

  const std::vector<Edge>& edges() const { return edges_; }
  bool contains(int node, size_t input) const { return index_of(node, input) >= 0; }
  // Into edges(); −1 where the input carries no gradient.
  int index_of(int node, size_t input) const { return index_[static_cast<size_t>(node)][input]; }

 private:
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> index_;
};

}  // namespace sigma1
