#include "tests/models/training_graph.h"

#include <limits>

#include "sigma1/graph/sources.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/passes/differentiate.h"

namespace sigma1 {

std::vector<TrainingCase> training_cases() {
  ModelConfig small{.batch = 3,
                    .time = 10,
                    .width = 32,
                    .hidden = 48,
                    .depth = 2,
                    .heads = 2,
                    .vocabulary = 41,
                    .residual = "running-mean"};
  std::vector<TrainingCase> cases;
  for (const Model& model : model_registry()) {
    // The gradient of a bias that all positions share is zero, with nothing to compare it by; its
    // encoder is that of bert.
    if (model.name == "bert_squad") continue;
    cases.push_back({std::string(model.name), std::string(model.name), small});
    if (model.has_blocks) {
      cases.push_back({std::string(model.name) + "_llama", std::string(model.name), small});
      cases.back().config.block = "llama";
      cases.back().config.heads = 4;
      cases.back().config.kv_heads = 2;
    }
    if (model.name != "char_lm") continue;
    for (const char* context : {"conv", "rnn"}) {
      cases.push_back({std::string("char_lm_") + context, "char_lm", small});
      cases.back().config.context = context;
    }
  }
  return cases;
}

void mark_gradients(Graph& graph, bool seed_input) {
  Gradients gradients = differentiate(graph, graph.output("loss"), seed_input);
  for (Value parameter : graph.parameters()) {
    Value gradient = gradients.of(parameter);
    if (gradient) graph.mark_output(graph.node(parameter.node).name + "/gradient", gradient);
  }
}

void build_training_graph(Graph& graph, const TrainingCase& of, std::optional<Scheme> scheme,
                          bool seed_input) {
  build_model(graph, of.model, of.config);
  if (of.model == "ffn") {
    Value y = graph.output("y");
    Value target = graph.input("target", y.type(), false);
    graph.mark_output("loss", mse(y, target));
  }
  graph.keep_outputs({"loss"});
  if (scheme) unit_scale(graph, ScalingOptions::of(*scheme));
  mark_gradients(graph, seed_input);
}

int64_t index_limit(const Graph& graph, const Node& input) {
  int64_t limit = std::numeric_limits<int32_t>::max();
  for (const Node& node : graph.nodes()) {
    std::vector<TensorType> types = node.input_types();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      bool reads = &graph.node(node.inputs[i].node) == &input && node.op->index_limit != nullptr;
      if (reads) limit = std::min(limit, node.op->index_limit({types, node.attributes}, i));
    }
  }
  return limit;
}

Bindings training_bindings(const Graph& graph) {
  Bindings bindings = initial_parameters(graph, 1);
  for (const Node& node : graph.nodes()) {
    const TensorType& type = node.outputs.front();
    if (node.op == &parameter_op &&
        node.attributes.get<std::string>("distribution") == "constant") {
      Tensor noise = normal_tensor(type.shape, node.name, 2);
      for (int64_t i = 0; i < noise.count(); ++i) bindings[node.name][i] += 0.1 * noise[i];
    }
    if (node.op != &input_op) continue;
    bindings[node.name] = type.kind == Kind::index
                              ? index_tensor(type.shape, index_limit(graph, node), node.name, 1)
                              : normal_tensor(type.shape, node.name, 1);
    bool masks = node.name == "mask" || node.name == "padding" || node.name == "masked_weights";
    if (!masks) continue;
    for (double& each : bindings[node.name].data) each = each > -1 ? 1 : 0;
  }
  return bindings;
}

}  // namespace sigma1
