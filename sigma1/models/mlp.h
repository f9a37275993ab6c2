// The plainest network: dense layers and relu.
#pragma once

#include "sigma1/models/registry.h"

namespace sigma1 {

void build_mlp(Graph& graph, const ModelConfig& config);

}  // namespace sigma1
