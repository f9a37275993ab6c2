// The layer of Figure 1 and of the code figure: where unit scaling is first seen at work.
#pragma once

#include "sigma1/models/registry.h"

namespace sigma1 {

void build_ffn(Graph& graph, const ModelConfig& config);

}  // namespace sigma1
