// The exact condition for valid gradients. Let a node's gradient be s times the true gradient of
// the scaled forward. Then s exists for every node exactly when β_e = α_v · s_u / s_v on each edge
// e: u → v that carries a gradient; equivalently, when the product of β/α around every undirected
// cycle, taken with direction, is 1. The paper's α = β on non-cut edges is one solution of many.
#pragma once

#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// s for every node; 1 where the graph leaves it free (a component's first node). Throws Error,
// naming the cycle, its ops and the product that should be 1, when no potentials exist. One linear
// walk.
std::vector<double> solve_potentials(const Graph& graph);

// Throws that Error, or returns: the graph's gradients are right up to a constant per tensor.
void check_gradients_valid(const Graph& graph);

}  // namespace sigma1
