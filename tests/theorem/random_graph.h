// Random models for the theorem: residuals, shared parameters, several branches, several losses.
#pragma once

#include <cstdint>

#include "sigma1/backend/reference.h"
#include "sigma1/graph/graph.h"

namespace sigma1 {

// Fills `graph` with a plain forward model that ends in the output "loss". No two paths between the
// same values are proportional to each other, so that a wrong factor on a cycle always shows.
void build_random_model(Graph& graph, uint64_t seed);

// Values for its inputs and parameters.
Bindings random_bindings(const Graph& graph, uint64_t seed);

}  // namespace sigma1
