#include <unordered_map>

#include "sigma1/analysis/loss_nodes.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/rules.h"
#include "sigma1/passes/alignment.h"
#include "sigma1/passes/scaling.h"
#include "sigma1/passes/unit_scaling.h"

namespace sigma1 {
namespace {

// A model repeats its layers, and some rules take milliseconds of quadrature: each is asked once.
class ScaleRules {
 public:
  explicit ScaleRules(const ScaleContext& context) : context_(context) {}

  const Scales& of(const Node& node) {
    std::vector<TensorType> types = node.input_types();
    std::string key(node.op->name);
    for (const TensorType& type : types) key += to_string(type.shape);
    for (const auto& [name, value] : node.attributes.entries()) key += name + to_string(value);
    auto found = known_.find(key);
    if (found == known_.end()) {
      found = known_.emplace(key, ask(node, types)).first;
    }
    return found->second;
  }

 private:
  Scales ask(const Node& node, const std::vector<TensorType>& types) const {
    try {
      return node.op->scale({types, node.attributes}, context_);
    } catch (const Error& error) {
      throw Error("{} at {}: {}", node.op->name, node.name, error.what());
    }
  }

  ScaleContext context_;
  std::unordered_map<std::string, Scales> known_;
};

// What a rule takes as 1 for each of the rows it counts: a parameter's gradient is also summed over
// accumulation steps and data-parallel ranks.
double parameter_square(const Node& node, const ScalingOptions& options) {
  return static_cast<double>(options.gradient_repeats) *
         node.attributes.get_or(kGradientSquare, 1.0);
}

}  // namespace

void ideal_scales(Graph& graph, const ScalingOptions& options) {
  ScaleRules rules(options.context);
  GradientEdges edges(graph);
  LossNodes losses(graph, edges);
  for (int i = 0; i < graph.size(); ++i) {
    Node& node = graph.node(i);
    if (is_source(*node.op) || node.pinned) continue;
    if (node.op->scale == nullptr) {
      throw Error("{} at {}: the op has no scale rule; unit scaling takes a forward graph",
                  node.op->name, node.name);
    }
    if (losses.is_sum(i)) continue;
    const Scales& scales = rules.of(node);
    node.alpha = scales.alpha * gain_of(node);
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      bool is_parameter = graph.node(node.inputs[input].node).op == &parameter_op;
      double square = is_parameter ? parameter_square(node, options) : 1;
      node.beta[input] =
          scales.beta[input] * rsqrt(square) * node.attributes.get_or(kGradientGain, 1.0);
    }
  }
}

}  // namespace sigma1
