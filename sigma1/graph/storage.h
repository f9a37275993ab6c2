// How a node's numbers are stored, for passes and devices alike.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

// fp32 unless lowering said otherwise.
Cast storage(const Node& node, size_t output);

}  // namespace sigma1
