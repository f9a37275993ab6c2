// A small causal Transformer with every kind of edge that scaling must get right.
#pragma once

#include "sigma1/models/registry.h"

namespace sigma1 {

void build_transformer(Graph& graph, const ModelConfig& config);

}  // namespace sigma1
