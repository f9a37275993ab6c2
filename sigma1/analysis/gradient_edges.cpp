#include "sigma1/analysis/gradient_edges.h"

#include "sigma1/graph/sources.h"

namespace sigma1 {
namespace {

bool starts_gradient(const Node& node) {
  if (node.op == &parameter_op) return true;
  return node.op == &input_op && node.attributes.get<bool>("with_gradient");
}

// Whether each input of each node would pass a gradient on, judged by what lies before it.
std::vector<std::vector<bool>> passing_inputs(const Graph& graph) {
  std::vector<bool> needs_gradient(static_cast<size_t>(graph.size()));
  std::vector<std::vector<bool>> passing(needs_gradient.size());
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    auto here = static_cast<size_t>(i);
    needs_gradient[here] = starts_gradient(node);
    std::vector<TensorType> types = node.input_types();
    passing[here].resize(types.size());
    if (node.op->grad == nullptr) continue;
    for (size_t input = 0; input < types.size(); ++input) {
      bool passes = needs_gradient[static_cast<size_t>(node.inputs[input].node)] &&
                    carries_gradient(*node.op, {types, node.attributes}, input);
      passing[here][input] = passes;
      if (passes) needs_gradient[here] = true;
    }
  }
  return passing;
}

// Nodes from which a gradient-carrying path leads to an output; all, when no output is marked.
std::vector<bool> reaching_output(const Graph& graph,
                                  const std::vector<std::vector<bool>>& passing) {
  std::vector<bool> reaches(passing.size(), graph.outputs().empty());
  for (const auto& [name, value] : graph.outputs()) reaches[static_cast<size_t>(value.node)] = true;
  for (int i = graph.size() - 1; i >= 0; --i) {
    auto here = static_cast<size_t>(i);
    if (!reaches[here]) continue;
    const Node& node = graph.node(i);
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (passing[here][input]) reaches[static_cast<size_t>(node.inputs[input].node)] = true;
    }
  }
  return reaches;
}

}  // namespace

GradientEdges::GradientEdges(const Graph& graph) {
  std::vector<std::vector<bool>> passing = passing_inputs(graph);
  std::vector<bool> reaches = reaching_output(graph, passing);
  for (int i = 0; i < graph.size(); ++i) {
    auto here = static_cast<size_t>(i);
    const Node& node = graph.node(i);
    index_.emplace_back(node.inputs.size(), -1);
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (!passing[here][input] || !reaches[here]) continue;
      index_.back()[input] = static_cast<int>(edges_.size());
      edges_.push_back({node.inputs[input].node, i, static_cast<int>(input)});
    }
  }
}

}  // namespace sigma1
