#include "sigma1/passes/alignment.h"

namespace sigma1 {

void set_alignment(Graph& graph, const Alignment& alignment) {
  for (int i = 0; i < graph.size(); ++i) {
    Node& node = graph.node(i);
    if (auto found = alignment.weights.find(node.name); found != alignment.weights.end())
      node.attributes.set("weights", found->second);
    auto found = alignment.settings.find(node.name);
    if (found == alignment.settings.end()) continue;
    for (const auto& [name, value] : found->second) node.attributes.set(name, value);
  }
}

double gain_of(const Node& node) { return node.attributes.get_or(kGain, 1.0); }

}  // namespace sigma1
