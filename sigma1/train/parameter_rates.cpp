#include "sigma1/train/parameter_rates.h"

#include <cmath>

#include "sigma1/ops/linear.h"
#include "sigma1/ops/rules.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

// The node that multiplies by the parameter, as it is or transposed, or null.
const Node* multiplying_node(const Graph& graph, Value parameter) {
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    std::vector<TensorType> types = node.input_types();
    if (node.op == &transpose_op && node.inputs.front() == parameter) {
      return multiplying_node(graph, {parameter.graph, i, 0});
    }
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (node.inputs[input] == parameter && node.op->multiplies != nullptr &&
          node.op->multiplies({types, node.attributes}, input)) {
        return &node;
      }
    }
  }
  return nullptr;
}

double u_mup_factor(const TrainConfig& config, const Graph& model, Value parameter) {
  const TensorType& type = parameter.type();
  const Node* product = multiplying_node(model, parameter);
  double factor = 1;
  if (product != nullptr && !is_readout(*product)) {
    int64_t fan_in = type.count() / type.dim(-1);
    factor = rsqrt(static_cast<double>(fan_in));
  } else if (product == nullptr && type.rank() > 1) {
    factor = rsqrt(static_cast<double>(type.dim(-1)));
  }
  bool in_a_layer = model.node(parameter.node).name.starts_with("layer");
  return in_a_layer ? factor * rsqrt(static_cast<double>(config.size.depth)) : factor;
}

}  // namespace

double rate_factor(const TrainConfig& config, const Graph& model, Value parameter) {
  if (config.is_u_mup()) return u_mup_factor(config, model, parameter);
  bool whole = Method::parse(config.method).kind != Method::Kind::unit ||
               config.optimiser == "lamb" || multiplying_node(model, parameter) != nullptr;
  return whole ? 1 : rsqrt(static_cast<double>(config.size.width));
}

}  // namespace sigma1
