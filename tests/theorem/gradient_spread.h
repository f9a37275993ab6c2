// How far a graph's gradients are from being right up to a constant.
#pragma once

#include "sigma1/backend/reference.h"
#include "sigma1/graph/graph.h"

namespace sigma1 {

// Over all values that a gradient reaches: the largest relative distance between autograd's
// gradient (with the graph's β) and the nearest multiple of the true gradient of the scaled forward
// (its α in the place of every β). Both are computed from fresh copies made by `build`.
double worst_gradient_spread(const Graph& graph, const Bindings& bindings);

// A graph with the same nodes, factors and outputs.
void copy_graph(const Graph& from, Graph& to);

}  // namespace sigma1
