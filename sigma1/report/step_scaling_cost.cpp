#include "sigma1/report/step_scaling_cost.h"

#include "sigma1/analysis/matrix_products.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/lowering.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {
namespace {

std::shared_ptr<Graph> forward_graph(TrainConfig config, const std::string& method) {
  config.method = method;
  std::shared_ptr<Graph> graph = scaled_model(config, {});
  graph->keep_outputs({"loss"});
  return graph;
}

// Forward and backward as gradient_graph() has them before lowering.
void append_gradients(Graph& graph) {
  Gradients gradients = differentiate(graph, graph.output("loss"));
  for (Value parameter : graph.parameters()) {
    Value gradient = gradients.of(parameter);
    if (gradient) graph.mark_output(gradient_name(graph.node(parameter.node).name), gradient);
  }
  remove_dead_nodes(graph);
}

}  // namespace

StepScalingCost step_scaling_cost(const TrainConfig& config) {
  int bytes = find_format(config.resolved_precision().activations).format.bytes();
  std::shared_ptr<Graph> scaled = forward_graph(config, "unit");
  std::shared_ptr<Graph> regular = forward_graph(config, "none");
  StepScalingCost cost;
  cost.paper = paper_estimate(*scaled, config.size.width);
  append_gradients(*scaled);
  append_gradients(*regular);
  cost.product_flops = product_flops(*scaled);
  cost.separate = cost_of_separate_factors(*scaled, bytes);
  fold(*scaled);
  fold(*regular);
  cost.folded = cost_of_folded_factors(*scaled, bytes);
  cost.regular = cost_of_folded_factors(*regular, bytes);
  return cost;
}

}  // namespace sigma1
