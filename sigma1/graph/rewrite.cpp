#include "sigma1/graph/rewrite.h"

#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"

namespace sigma1 {

Value Rewriter::now(Value old_value) const {
  const std::vector<Value>& outputs = values_[static_cast<size_t>(old_value.node)];
  if (outputs.empty()) throw Bug("rewrite: {} is gone", old_.node(old_value.node).name);
  return outputs[static_cast<size_t>(old_value.output)];
}

std::vector<Value> Rewriter::now(const std::vector<Value>& old_values) const {
  std::vector<Value> values;
  for (Value value : old_values) values.push_back(now(value));
  return values;
}

std::vector<Value> Rewriter::copy(int node) {
  return copy(node, now(old_.node(node).inputs), old_.node(node).name);
}

std::vector<Value> Rewriter::copy(int node, const std::vector<Value>& inputs,
                                  const std::string& name) {
  const Node& old_node = old_.node(node);
  std::vector<Value> values = fresh_.append(*old_node.op, inputs, old_node.attributes, name);
  Node& copied = fresh_.node(values.front().node);
  copied.alpha = old_node.alpha;
  copied.beta = old_node.beta;
  copied.pinned = old_node.pinned;
  copied.output_factors = old_node.output_factors;
  copied.storage = old_node.storage;
  copied.again = old_node.again;
  return values;
}

void rewrite(Graph& graph, const std::function<std::vector<Value>(Rewriter&, int)>& rule) {
  Graph fresh;
  Rewriter rewriter(graph, fresh);
  for (int i = 0; i < graph.size(); ++i) rewriter.values_.push_back(rule(rewriter, i));
  for (const auto& [name, value] : graph.outputs()) fresh.mark_output(name, rewriter.now(value));
  graph.take(fresh);
}

void remove_dead_nodes(Graph& graph) {
  std::vector<bool> needed(static_cast<size_t>(graph.size()));
  for (const auto& [name, value] : graph.outputs()) needed[static_cast<size_t>(value.node)] = true;
  for (int i = graph.size() - 1; i >= 0; --i) {
    const Node& node = graph.node(i);
    if (node.op == &input_op || node.op == &parameter_op) needed[static_cast<size_t>(i)] = true;
    if (!needed[static_cast<size_t>(i)]) continue;
    for (Value input : node.inputs) needed[static_cast<size_t>(input.node)] = true;
  }
  rewrite(graph, [&](Rewriter& rewriter, int node) {
    return needed[static_cast<size_t>(node)] ? rewriter.copy(node) : std::vector<Value>{};
  });
}

std::vector<std::vector<int>> count_uses(const Graph& graph) {
  std::vector<std::vector<int>> uses;
  for (const Node& node : graph.nodes()) uses.emplace_back(node.outputs.size());
  auto count = [&](Value value) {
    ++uses[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  };
  for (const Node& node : graph.nodes()) {
    for (Value input : node.inputs) count(input);
  }
  for (const auto& [name, value] : graph.outputs()) count(value);
  return uses;
}

}  // namespace sigma1
