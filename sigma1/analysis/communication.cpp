#include "sigma1/analysis/communication.h"

#include <algorithm>

#include "sigma1/ops/collective.h"

namespace sigma1 {
namespace {

int64_t stored_bytes(Value value) {
  const Node& node = value.graph->node(value.node);
  auto output = static_cast<size_t>(value.output);
  int64_t each = node.storage.empty() ? 4 : node.storage[output].format.bytes();
  return value.type().count() * each;
}

int64_t bytes_of(const Node& node, Value input) {
  auto format = node.attributes.get_or<std::string>("format", "");
  return format.empty() ? stored_bytes(input)
                        : input.type().count() * find_format(format).format.bytes();
}

// An owner is sent every other rank's part, or sends its own to every other rank.
void count_owned(const Node& node, int64_t world, CollectiveCost& cost) {
  std::vector<int64_t> owned(static_cast<size_t>(world), 0);
  const auto& owners = node.attributes.get<std::vector<int64_t>>("owners");
  for (size_t i = 0; i < owners.size(); ++i) {
    owned[static_cast<size_t>(owners[i])] += bytes_of(node, node.inputs[i]);
  }
  auto [least, most] = std::ranges::minmax(owned);
  cost.most_sent = (world - 1) * most;
  cost.most_received = cost.bytes - least;
  if (node.op == &reduce_scatter_op) std::swap(cost.most_sent, cost.most_received);
}

CollectiveCost cost_of(const Node& node) {
  auto world = node.attributes.get<int64_t>("world");
  CollectiveCost cost{node.name, node.op->name,
                      node.attributes.get_or<std::string>("format", "stored"),
                      static_cast<int64_t>(node.inputs.size())};
  for (Value input : node.inputs) {
    cost.numbers += input.type().count();
    cost.bytes += bytes_of(node, input);
  }
  if (node.op != &all_reduce_op) {
    count_owned(node, world, cost);
    return cost;
  }
  // All but the own share, which it adds up; then its sums to all others.
  cost.most_sent = cost.most_received = 2 * (cost.bytes - cost.bytes / world);
  return cost;
}

}  // namespace

std::vector<CollectiveCost> collective_costs(const Graph& graph) {
  std::vector<CollectiveCost> costs;
  for (const Node& node : graph.nodes()) {
    if (is_collective(*node.op)) costs.push_back(cost_of(node));
  }
  return costs;
}

}  // namespace sigma1
