#include <cmath>

#include "sigma1/graph/sources.h"
#include "sigma1/passes/scaling.h"

namespace sigma1 {
namespace {

bool starts_random(const Node& node) {
  return node.op == &parameter_op && node.attributes.get<std::string>("distribution") != "constant";
}

}  // namespace

void unit_init(Graph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    Node& node = graph.node(i);
    if (starts_random(node)) node.attributes.set("std_dev", 1.0);
    if (node.op->unit_attributes == nullptr) continue;
    std::vector<TensorType> types = node.input_types();
    node.op->unit_attributes({types, node.attributes}, node.attributes);
  }
}

}  // namespace sigma1
