// What of a graph runs together on a GPU. Private to this folder.
#pragma once

#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// `casts_in_attention`: NodeGroup::Kind::joined too.
Grouping grouping(const Graph& graph, bool casts_in_attention = false);
std::unique_ptr<Chain> make_chain(NodeGroup::Kind kind, std::vector<ChainStep> steps);

}  // namespace sigma1::cuda
