// What of a graph runs together on a GPU. Private to this folder.
#pragma once

#include "sigma1/backend/devices.h"

namespace sigma1::cuda {

Grouping grouping(const Graph& graph, const ProductChoices& choices);
std::unique_ptr<Chain> make_chain(NodeGroup::Kind kind, std::vector<ChainStep> steps);

}  // namespace sigma1::cuda
