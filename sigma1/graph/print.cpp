#include "sigma1/graph/print.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

bool marked(const CutMarks& is_cut, int node, size_t input) {
  return !is_cut.empty() && is_cut[static_cast<size_t>(node)][input];
}

// The node's name, with the output's number where there is more than one.
std::string name_of(Value value) {
  const Node& node = value.graph->node(value.node);
  return node.outputs.size() == 1 ? node.name : fmt::format("{}:{}", node.name, value.output);
}

std::string shapes_of(const Node& node) {
  std::vector<std::string> shapes;
  for (const TensorType& type : node.outputs) shapes.push_back(to_string(type.shape));
  return fmt::format("{}", fmt::join(shapes, " "));
}

std::string factors_of(const Node& node) {
  if (node.inputs.empty()) return node.alpha == 1 ? "" : fmt::format("  α={:.4g}", node.alpha);
  std::vector<std::string> betas;
  for (double beta : node.beta) betas.push_back(fmt::format("{:.4g}", beta));
  return fmt::format("  α={:.4g} β={}", node.alpha, fmt::join(betas, ","));
}

std::string dot_string(const std::string& text) { return nlohmann::json(text).dump(); }

}  // namespace

std::string to_text(const Graph& graph, const CutMarks& is_cut) {
  std::string text;
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    std::vector<std::string> inputs;
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      inputs.push_back(
          fmt::format("{}{}", marked(is_cut, i, input) ? "|" : "", name_of(node.inputs[input])));
    }
    text += fmt::format("{} = {}({}) {}{}\n", node.name, node.op->name, fmt::join(inputs, ", "),
                        shapes_of(node), factors_of(node));
  }
  return text;
}

std::string to_dot(const Graph& graph, const CutMarks& is_cut) {
  std::string dot = "digraph sigma1 {\n  node [shape=box, fontname=\"Helvetica\"];\n";
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    std::string label = fmt::format("{}\n{}", node.name, shapes_of(node));
    if (!node.inputs.empty()) label += fmt::format("\nα={:.4g}", node.alpha);
    dot += fmt::format("  n{} [label={}{}];\n", i, dot_string(label),
                       node.inputs.empty() ? ", style=rounded" : "");
    std::vector<TensorType> types = node.input_types();
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      bool has_gradient = carries_gradient(*node.op, {types, node.attributes}, input);
      const char* style = !has_gradient ? "dotted" : marked(is_cut, i, input) ? "dashed" : "solid";
      std::string beta = has_gradient ? fmt::format("β={:.4g}", node.beta[input]) : "";
      dot += fmt::format("  n{} -> n{} [style={}, label={}];\n", node.inputs[input].node, i, style,
                         dot_string(beta));
    }
  }
  return dot + "}\n";
}

std::string to_json(const Graph& graph, const CutMarks& is_cut) {
  auto nodes = nlohmann::ordered_json::array();
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    auto inputs = nlohmann::ordered_json::array(), cut = nlohmann::ordered_json::array();
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      inputs.push_back(name_of(node.inputs[input]));
      cut.push_back(marked(is_cut, i, input));
    }
    nodes.push_back({{"name", node.name},
                     {"op", node.op->name},
                     {"inputs", inputs},
                     {"shape", node.outputs.front().shape},
                     {"alpha", node.alpha},
                     {"beta", node.beta},
                     {"cut", cut}});
  }
  return nlohmann::ordered_json{{"nodes", nodes}}.dump(2) + "\n";
}

}  // namespace sigma1
