#include "sigma1/train/step_graphs.h"

#include "sigma1/base/error.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/ops/update.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/other_schemes.h"
#include "sigma1/train/parameter_rates.h"

namespace sigma1 {
namespace {

bool is_unit(const TrainConfig& config) {
  return Method::parse(config.method).kind == Method::Kind::unit;
}

// A layer alone learns to give noise, so that gradients flow as in a model.
void add_missing_loss(Graph& graph) {
  for (const auto& [name, value] : graph.outputs()) {
    if (name == "loss") return;
  }
  Value y = graph.outputs().front().second;
  Value target = graph.input("target", y.type(), false);
  graph.mark_output("loss", mse(y, target, LossReduction::mean));
}

void keep(StepGraph& step, const std::string& name, Value value) {
  step.graph->mark_output(name, value);
  step.stored[name] = name;
}

// Of a parameter as it is stored, so that a copy is what a cast of the parameter would be.
void add_copies(StepGraph& step, Value stored, const std::string& parameter,
                std::span<const WeightCopy> copies) {
  for (const WeightCopy& each : copies) {
    if (each.parameter != parameter) continue;
    Value copy = step.graph->append(identity_op, {stored}, {}, "copy/" + each.name).front();
    step.graph->node(copy.node).storage = {each.cast};
    keep(step, each.name, copy);
  }
}

// Outputs that a delayed cast asks for are kept from step to step.
void add_histories(StepGraph& step) {
  for (const auto& [name, value] : step.graph->outputs()) {
    if (name.ends_with("/amax_history")) step.stored[name] = name;
  }
}

class UpdateBuilder {
 public:
  UpdateBuilder(const TrainConfig& config, std::span<const WeightCopy> copies, StepGraph& step)
      : config_(config),
        precision_(config.resolved_precision()),
        copies_(copies),
        step_(step),
        graph_(*step.graph) {
    rate_ = graph_.input(kRate, {{}}, false);
    if (config.optimiser != "sgd") step_count_ = graph_.input(kStepCount, {{}}, false);
    Method method = Method::parse(config.method);
    if (method.kind == Method::Kind::auto_loss_scale) {
      gradient_scale_ = graph_.input(kGradientScale, {{}}, false);
    }
    // Unit scaling's β already counts the batches; a plain loss is a mean over them.
    fixed_scale_ = 1 / method.loss_scale;
    if (!is_unit(config)) fixed_scale_ /= static_cast<double>(config.parts());
  }

  void add(const Node& parameter, double rate_factor) {
    Shape shape = parameter.outputs.front().shape;
    const std::string& name = parameter.name;
    bool master = precision_.master_weights && precision_.weights != "fp32";
    Value param =
        source(master ? master_name(name) : name, shape, master ? "fp32" : precision_.weights);
    Value grad = source(gradient_name(name), shape, precision_.gradients);
    if (gradient_scale_) grad = mul(grad, gradient_scale_);
    std::vector<Value> next = optimiser_step(name, shape, param, grad, rate_factor);
    Node& step = graph_.node(next.front().node);
    step.storage = {weight_storage(master ? "fp32" : precision_.weights),
                    storage_cast(precision_.moment), storage_cast(precision_.second_moment)};
    step.storage.resize(step.outputs.size());
    keep(step_, master ? master_name(name) : name, next[0]);
    keep(step_, moment_name(name), next[1]);
    if (next.size() > 2) keep(step_, second_moment_name(name), next[2]);
    add_copies(step_, master ? rounded(name, next[0]) : next[0], name, copies_);
  }

 private:
  Value source(const std::string& name, const Shape& shape, const std::string& format) {
    Value value = graph_.input(name, {shape}, false);
    graph_.node(value.node).storage = {storage_cast(format)};
    return value;
  }

  // A master weight as the model has it.
  Value rounded(const std::string& name, Value master) {
    Graph::Path path(graph_, "update/" + name);  // rounded by numbers of this name
    Value stored = identity(master);
    graph_.node(stored.node).storage = {weight_storage(precision_.weights)};
    keep(step_, name, stored);
    return stored;
  }

  Cast weight_storage(const std::string& format) const {
    Cast cast = storage_cast(format);
    bool stochastic = precision_.stochastic_weights && cast.format.bytes() < 4;
    if (stochastic) cast.rounding = Rounding::stochastic;
    return cast;
  }

  // The optimiser multiplies decay by the rate. Under u-µP it is independent of it: at its peak, a
  // step takes just this share of a weight.
  double decay_at(const Shape& shape, double rate_factor) const {
    if (shape.size() < 2 && !config_.decay_vectors) return 0;
    if (!config_.is_u_mup()) return config_.weight_decay;
    return config_.weight_decay / (config_.resolved_schedule().rate * rate_factor);
  }

  std::vector<Value> optimiser_step(const std::string& name, const Shape& shape, Value param,
                                    Value grad, double rate_factor) {
    Value m = source(moment_name(name), shape, precision_.moment);
    if (config_.optimiser == "sgd") {
      Graph::Path path(graph_, "update/" + name);
      SgdStep next = sgd_step(param, grad, m, rate_,
                              {.momentum = config_.momentum,
                               .weight_decay = decay_at(shape, rate_factor),
                               .gradient_scale = fixed_scale_,
                               .rate_scale = rate_factor});
      return {next.param, next.momentum};
    }
    Value v = source(second_moment_name(name), shape, precision_.second_moment);
    Graph::Path path(graph_, "update/" + name);
    AdamOptions adam{.beta1 = config_.beta1,
                     .beta2 = config_.beta2,
                     .epsilon = config_.epsilon,
                     .weight_decay = decay_at(shape, rate_factor),
                     .decoupled = config_.optimiser != "adam",
                     .gradient_scale = fixed_scale_,
                     .rate_scale = rate_factor};
    AdamStep next = config_.optimiser == "lamb"
                        ? lamb_step(param, grad, m, v, rate_, step_count_, {.adam = adam})
                        : adam_step(param, grad, m, v, rate_, step_count_, adam);
    return {next.param, next.m, next.v};
  }

  const TrainConfig& config_;
  Precision precision_;
  std::span<const WeightCopy> copies_;
  StepGraph& step_;
  Graph& graph_;
  Value rate_, step_count_, gradient_scale_;
  double fixed_scale_ = 1;
};

}  // namespace

std::string gradient_name(const std::string& parameter) { return parameter + "/gradient"; }
std::string moment_name(const std::string& parameter) { return parameter + "/moment"; }
std::string second_moment_name(const std::string& parameter) {
  return parameter + "/second_moment";
}
std::string master_name(const std::string& parameter) { return parameter + "/master"; }

std::shared_ptr<Graph> scaled_model(const TrainConfig& config, const Alignment& alignment) {
  auto graph = std::make_shared<Graph>();
  build_model(*graph, config.model, config.size);
  add_missing_loss(*graph);
  set_alignment(*graph, alignment);
  Method method = Method::parse(config.method);
  if (method.kind == Method::Kind::unit) unit_scale(*graph, config.scaling());
  if (method.kind == Method::Kind::loss_scale) loss_scale(*graph, method.loss_scale);
  return graph;
}

StepGraph gradient_graph(const TrainConfig& config, const Alignment& alignment,
                         const Device& device) {
  StepGraph step = labelled_gradient_graph(config, alignment).step;
  remove_dead_nodes(*step.graph);  // or merge_casts would take them for readers
  merge_casts(*step.graph);
  recompute(*step.graph, parse_recompute(config.recompute));
  keep_attention(*step.graph, [&](const Graph& graph, int gradient) {
    if (config.keep_attention != "auto") return config.keep_attention == "true";
    return device.keeps_attention(graph, gradient);
  });
  fuse_loss(*step.graph);
  remove_dead_nodes(*step.graph);
  return step;
}

LabelledGraph labelled_gradient_graph(const TrainConfig& config, const Alignment& alignment) {
  LabelledGraph labelled{{scaled_model(config, alignment), {}}, {}};
  StepGraph& step = labelled.step;
  Graph& graph = *step.graph;
  graph.keep_outputs({"loss"});
  bool moving_seed = Method::parse(config.method).kind == Method::Kind::auto_loss_scale;
  Gradients gradients = differentiate(graph, graph.output("loss"), moving_seed);
  labelled.labels = label_tensors(graph, gradients);
  for (Value parameter : graph.parameters()) {
    std::string name = gradient_name(graph.node(parameter.node).name);
    Value gradient = gradients.of(parameter);
    if (!gradient)
      throw Error("{}: the loss does not depend on it", graph.node(parameter.node).name);
    if (config.own_parts() > 1) {
      Value before = graph.input(name, parameter.type(), false);
      graph.node(before.node).storage = {storage_cast(config.resolved_precision().gradients)};
      gradient = add({before, gradient});
    }
    graph.mark_output(name, gradient);
    step.stored[name] = name;
  }
  remove_dead_nodes(graph);  // or fold would take what they read for shared
  fold(graph);
  lower_precision(graph, config.resolved_precision());
  add_histories(step);
  return labelled;
}

StepGraph update_graph(const TrainConfig& config, const Alignment& alignment,
                       std::span<const WeightCopy> copies,
                       const std::function<bool(const std::string&)>& wants) {
  StepGraph step{std::make_shared<Graph>(), {}};
  std::shared_ptr<Graph> model = scaled_model(config, alignment);
  UpdateBuilder builder(config, copies, step);
  for (Value parameter : model->parameters()) {
    if (!wants(model->node(parameter.node).name)) continue;
    builder.add(model->node(parameter.node), rate_factor(config, *model, parameter));
  }
  return step;
}

StepGraph weight_copy_graph(const TrainConfig& config, std::span<const WeightCopy> copies) {
  StepGraph step{std::make_shared<Graph>(), {}};
  std::map<std::string, Value> stored;  // by parameter
  for (const WeightCopy& each : copies) {
    auto [entry, is_new] = stored.try_emplace(each.parameter);
    if (!is_new) continue;
    entry->second = step.graph->input(each.parameter, {each.shape}, false);
    step.graph->node(entry->second.node).storage = {
        storage_cast(config.resolved_precision().weights)};
    add_copies(step, entry->second, each.parameter, copies);
  }
  return step;
}

StepGraph evaluation_graph(const TrainConfig& config, const Alignment& alignment,
                           bool with_scores) {
  StepGraph step{scaled_model(config, alignment), {}};
  if (!with_scores) step.graph->keep_outputs({"loss"});
  fold(*step.graph);
  Precision precision = config.resolved_precision();
  if (precision.scaling == CastScaling::delayed) precision.scaling = CastScaling::current;
  lower_precision(*step.graph, precision);
  merge_casts(*step.graph);
  remove_dead_nodes(*step.graph);
  return step;
}

}  // namespace sigma1
