// Which nodes of a graph run together as one call of a device, and in which order: the fewer calls,
// the fewer tensors are stored and read again, and the less a small model waits.
#pragma once

#include <functional>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// Nodes that run as one call, in an order that can be run.
struct NodeGroup {
  enum class Kind {
    single,
    pointwise,  // a chain whose inner values nobody else reads, and sums over its rows
    rows,       // what is computed of a row depends on that row alone; and sums over all rows
    joined,     // a node, the concat of its outputs, what is made of the whole, and a sum over that
    bundle,     // nodes of one kind that do not read each other; and casts of their results
  };
  Kind kind = Kind::single;
  std::vector<int> nodes;
};

// Whether a node is its input by another name: a reshape that neither scales nor casts and is no
// output of the graph. Nothing has to run for it.
std::vector<bool> find_views(const Graph& graph);
// The value behind views.
Value behind_views(const Graph& graph, const std::vector<bool>& views, Value value);

// For each input of a node, the place among `nodes` of the one that computes it; −1: it is not
// there.
std::vector<int> producers_among(const Graph& graph, const std::vector<bool>& views,
                                 const std::vector<int>& nodes, const Node& node);

// What a device can run together.
struct Grouping {
  std::function<bool(const Node&)> is_pointwise = {};
  // How many rows a node computes, each by itself; 0 when it does not. Null: none does.
  std::function<int64_t(const Node&)> local_rows = {};
  // Whether one of these also reads other rows of its inputs than its own: they are then no part of
  // its group. Null: none does.
  std::function<bool(const Node&)> reaches_rows = {};
  // Whether nodes of a graph, in their order, fit one call.
  std::function<bool(const std::vector<int>&)> rows_fit = {};
  // Nodes of one kind that nobody in the graph reads run together at its end; 0: not this one.
  std::function<int(const Node&)> bundle_kind = {};
  // Whether a bundle of that kind also computes `cast`, which reads a result of it that is an
  // output of the graph, as the cast is. Then the cast is no reader. Null: none does.
  std::function<bool(int kind, const Node& cast)> bundle_takes = {};
  // Whether a group, of rows, pointwise or joined, also computes `sum`, a node that nobody in the
  // graph reads and whose every input the group computes or reads. Rows come first, also a single
  // node of them. Null: none does.
  std::function<bool(const NodeGroup& group, int sum)> takes_sum = {};
  // Whether the nodes of a JoinedNodes run as one call. Null: none do.
  std::function<bool(const std::vector<int>&)> runs_joined = {};
};

// Every node but views once, groups in an order that can be run.
std::vector<NodeGroup> group_nodes(const Graph& graph, const Grouping& grouping);

}  // namespace sigma1
