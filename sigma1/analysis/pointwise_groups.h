// Which pointwise nodes run together: a chain whose inner values nobody else reads becomes one
// loop, and those values are never stored.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// Every node once, in an order that can be run; a group of several is a chain ending in its last.
// `is_pointwise` tells what may be grouped: one output like the first input in shape. Nodes of
// `beside` do not count as readers.
std::vector<std::vector<int>> pointwise_groups(const Graph& graph,
                                               const std::function<bool(const Node&)>& is_pointwise,
                                               const std::set<int>& beside = {});

}  // namespace sigma1
