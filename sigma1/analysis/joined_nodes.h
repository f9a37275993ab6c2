// Nodes whose outputs are put together into one tensor, of which one other node makes something
// else: a device may be able to compute that at once, and the whole is never stored.
#pragma once

#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

struct JoinedNodes {
  // One whose outputs nobody else reads, the concat of all of them in their order, and the only
  // node that goes on from there.
  std::vector<int> nodes;
  std::vector<int> beside;  // others that read the whole; nobody in the graph reads these
};

std::vector<JoinedNodes> find_joined_nodes(const Graph& graph);

}  // namespace sigma1
