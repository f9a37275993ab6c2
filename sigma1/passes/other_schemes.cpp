#include "sigma1/passes/other_schemes.h"

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"

namespace sigma1 {

void loss_scale(Graph& graph, double scale) {
  if (!(scale > 0) || !std::isfinite(scale)) {
    throw Error("loss scale: expected a positive finite number, got {}", scale);
  }
  Value loss = graph.output("loss");
  if (loss.type().count() != 1) {
    throw Error("loss scale: expected a scalar loss, got shape {}", to_string(loss.shape()));
  }
  Value scaled = graph.append(identity_op, {loss}, {}, "loss_scale").front();
  Node& node = graph.node(scaled.node);
  node.beta = {scale};
  node.pinned = true;
  graph.replace_output("loss", scaled);
}

// The mean is of the variances that the two factors undo, m and n: hence 2/(m + n).
void glorot_scaling(Graph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (node.op != &matmul_op && node.op != &linear_op) continue;
    Node& weight = graph.node(node.inputs[1].node);
    if (weight.op != &parameter_op) continue;
    if (weight.attributes.get<std::string>("distribution") == "constant") continue;
    std::vector<TensorType> types = node.input_types();
    Scales scales = node.op->scale({types, node.attributes}, {});
    double of_output = std::pow(scales.alpha, -2), of_gradient = std::pow(scales.beta[0], -2);
    weight.attributes.set("std_dev", std::sqrt(2 / (of_output + of_gradient)));
  }
}

}  // namespace sigma1
