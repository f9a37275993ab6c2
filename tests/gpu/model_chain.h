// The row chains of a model's step, on random tensors.
#pragma once

#include <span>

#include "sigma1/graph/graph.h"
#include "tests/gpu/row_chain_case.h"

namespace sigma1 {

// Of nodes that run as one chain of rows; none of them reaches for others.
RowChainCase chain_of(const Device& device, const Graph& graph, std::span<const int> nodes);

}  // namespace sigma1
