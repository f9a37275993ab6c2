// Cut edges (Section 4 of the paper): those whose removal would part the graph, taken as
// undirected. Their factors are free, because no second path joins what they join.
#pragma once

#include <vector>

#include "sigma1/analysis/gradient_edges.h"

namespace sigma1 {

// For each of edges.edges(), whether it is a cut edge. Linear time: Tarjan's bridges of the
// undirected multigraph.
std::vector<bool> cut_edges(const Graph& graph, const GradientEdges& edges);

}  // namespace sigma1
