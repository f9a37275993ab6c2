#include "sigma1/analysis/pointwise_groups.h"

#include <algorithm>

#include "sigma1/analysis/node_groups.h"
#include "sigma1/graph/rewrite.h"

namespace sigma1 {

std::vector<std::vector<int>> pointwise_groups(const Graph& graph,
                                               const std::function<bool(const Node&)>& is_pointwise,
                                               const std::set<int>& beside) {
  std::vector<std::vector<int>> uses = count_uses(graph), groups(static_cast<size_t>(graph.size()));
  const std::vector<bool> views = find_views(graph);
  auto forget = [&](Value value) {
    for (;; value = graph.node(value.node).inputs.front()) {
      auto from = static_cast<size_t>(value.node);
      int left = --uses[from][static_cast<size_t>(value.output)];
      if (left > 0 || !views[from]) return;
    }
  };
  for (int node : beside) {
    for (Value input : graph.node(node).inputs) forget(input);
  }
  for (int i = 0; i < graph.size(); ++i) {
    std::vector<int>& group = groups[static_cast<size_t>(i)];
    const Node& node = graph.node(i);
    for (Value input : node.inputs) {
      std::vector<int>& before = groups[static_cast<size_t>(input.node)];
      bool joins = is_pointwise(node) && is_pointwise(graph.node(input.node)) &&
                   uses[static_cast<size_t>(input.node)][0] == 1 &&
                   input.type() == node.outputs.front();
      if (!joins) continue;
      group.insert(group.end(), before.begin(), before.end());
      before.clear();
    }
    group.push_back(i);
    std::ranges::sort(group);
  }
  std::erase_if(groups, [](const std::vector<int>& group) { return group.empty(); });
  return groups;
}

}  // namespace sigma1
