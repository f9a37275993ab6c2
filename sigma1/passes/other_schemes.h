// Schemes older than unit scaling, said in its terms (Appendix F), so that all can be compared on
// one graph. Each takes a plain forward graph.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

// Micikevicius et al. (2018): an id* with α = 1 and β = scale at the end, where the edge is always
// a cut edge. Needs an output "loss" of one number, which it replaces. Throws Error otherwise, or
// when the scale is not a positive number.
void loss_scale(Graph& graph, double scale);

// Glorot and Bengio (2010): one number for the output's and the input gradient's scale of each
// product with a weight, moved into how the weight starts. No factor is left to multiply with.
void glorot_scaling(Graph& graph);

}  // namespace sigma1
