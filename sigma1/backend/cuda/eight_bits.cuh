// Where numbers of 8 bits make products faster, and where they do not. Private to this folder.
#pragma once

#include <string>

#include "sigma1/graph/graph.h"

namespace sigma1::cuda {

// As Device::why_not_8_bits.
std::string why_not_8_bits(const Graph& graph, int node);

}  // namespace sigma1::cuda
