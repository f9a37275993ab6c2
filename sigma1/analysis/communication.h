// How many bytes ranks send each other in a graph: what its collectives cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

struct CollectiveCost {
  std::string name;  // of the node
  std::string_view op;
  std::string format;  // what travels; "stored" where that is how each tensor is stored
  int64_t tensors = 0, numbers = 0;
  int64_t bytes = 0;  // of all its tensors, in that format
  // By the rank that sends most to all others together, and by the one that gets most from them.
  int64_t most_sent = 0, most_received = 0;
};

// In the graph's order.
std::vector<CollectiveCost> collective_costs(const Graph& graph);

}  // namespace sigma1
