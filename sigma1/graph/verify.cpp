#include "sigma1/graph/verify.h"

#include <cmath>
#include <unordered_set>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

bool is_factor(double x) { return std::isfinite(x) && x > 0; }

void verify_node(const Graph& graph, int index) {
  const Node& node = graph.node(index);
  for (Value input : node.inputs) {
    if (input.graph != &graph) throw Bug("{}: input of another graph", node.name);
    if (input.node < 0 || input.node >= index) throw Bug("{}: input not before it", node.name);
    size_t outputs = graph.node(input.node).outputs.size();
    if (input.output < 0 || static_cast<size_t>(input.output) >= outputs) {
      throw Bug("{}: input is no output of {}", node.name, graph.node(input.node).name);
    }
  }
  std::vector<TensorType> types = node.input_types();
  if (node.op->infer({types, node.attributes}) != node.outputs) {
    throw Bug("{}: shapes do not follow from its inputs", node.name);
  }
  if (node.beta.size() != node.inputs.size()) throw Bug("{}: not one beta per input", node.name);
  if (!is_factor(node.alpha)) throw Bug("{}: alpha is {}", node.name, node.alpha);
  for (double beta : node.beta) {
    if (!is_factor(beta)) throw Bug("{}: beta is {}", node.name, beta);
  }
}

}  // namespace

void verify(const Graph& graph) {
  std::unordered_set<std::string_view> names;
  for (int i = 0; i < graph.size(); ++i) {
    verify_node(graph, i);
    if (!names.insert(graph.node(i).name).second)
      throw Bug("two nodes named {}", graph.node(i).name);
  }
  for (const auto& [name, value] : graph.outputs()) {
    if (value.graph != &graph || value.node >= graph.size()) throw Bug("output {} is lost", name);
  }
}

}  // namespace sigma1
