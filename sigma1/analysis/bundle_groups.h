// Which nodes at a graph's end run as bundles.
#pragma once

#include <functional>
#include <vector>

#include "sigma1/analysis/node_groups.h"

namespace sigma1 {

// Free nodes of one kind that nobody reads but casts which go with them: each group's nodes, and
// then these casts.
std::vector<std::vector<int>> bundle_groups(const Graph& graph, const Grouping& grouping,
                                            const std::function<bool(int node)>& is_free);

}  // namespace sigma1
