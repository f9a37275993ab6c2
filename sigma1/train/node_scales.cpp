#include "sigma1/train/node_scales.h"

#include <algorithm>
#include <optional>

#include "sigma1/analysis/factor_conditions.h"
#include "sigma1/graph/sources.h"
#include "sigma1/numerics/tensor_stats.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/shape.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/train/session.h"

namespace sigma1 {
namespace {

// Of a tensor that passes by once.
struct Seen {
  double std_dev = 0, rms = 0, rows = 0;
};

double nonzero_rows(const std::vector<float>& values, int64_t width) {
  auto row = values.begin();
  int64_t rows = static_cast<int64_t>(values.size()) / width, found = 0;
  for (int64_t i = 0; i < rows; ++i, row += width) {
    found += std::any_of(row, row + width, [](float x) { return x != 0; }) ? 1 : 0;
  }
  return static_cast<double>(found) / static_cast<double>(rows);
}

Seen look(const std::vector<float>& values, int64_t width) {
  TensorStats stats;
  stats.add(values);
  return {stats.std_dev(), stats.rms(), nonzero_rows(values, width)};
}

// No kernel runs for a view: it is what it is a view of.
Value origin(const Graph& graph, Value value) {
  auto is_view = [](const Node& node) {
    return (node.op == &reshape_op || node.op == &identity_op) && node.alpha == 1;
  };
  while (is_view(graph.node(value.node))) value = graph.node(value.node).inputs.front();
  return value;
}

class Measurement {
 public:
  Measurement(std::shared_ptr<Graph> model, uint64_t seed, const ModelBatch& batch)
      : graph_(std::move(model)), forward_nodes_(graph_->size()) {
    graph_->keep_outputs({"loss"});
    gradients_.emplace(differentiate(*graph_, graph_->output("loss")));
    for (Value parameter : graph_->parameters()) keep_gradient(parameter);
    for (int i = 0; i < forward_nodes_; ++i) want(i);
    run(seed, batch);
  }

  NodeScales scales() const {
    NodeScales scales;
    for (int i = 0; i < forward_nodes_; ++i) {
      if (depends_on_scale(graph_->node(i))) add_scales(i, scales);
      if (gets_gradient(graph_->node(i))) add_gradient(i, scales);
    }
    return scales;
  }

 private:
  // Or what leads to it would not be computed.
  void keep_gradient(Value parameter) {
    if (Value gradient = gradients_->of(parameter))
      graph_->mark_output("gradient of " + graph_->node(parameter.node).name, gradient);
  }

  bool depends_on_scale(const Node& node) const {
    return !is_source(*node.op) && (is_sum(node) || !factor_conditions(node).fixed.empty());
  }

  bool gets_gradient(const Node& node) const {
    return node.op == &attention_op || (!is_source(*node.op) && reads_parameter(node));
  }

  void want(int i) {
    const Node& node = graph_->node(i);
    Value output{graph_.get(), i, 0}, gradient = gradients_->of(output);
    auto add = [&](Value value) {
      Value from = origin(*graph_, value);
      seen_[{graph_->node(from.node).name, from.output}] = {};
    };
    if (depends_on_scale(node)) {
      std::ranges::for_each(node.inputs, add);
      add(output);
    }
    if (gets_gradient(node) && gradient) add(gradient);
  }

  void run(uint64_t seed, const ModelBatch& batch) {
    Program program(graph_, store_, {}, seed, Fusion::none);
    initialise_parameters(store_, *graph_, seed);
    write_batch(store_, batch);
    program.run(0, [&](const Node& node, size_t output, const Buffer& buffer) {
      const TensorType& type = node.outputs[output];
      auto wanted = seen_.find({node.name, static_cast<int>(output)});
      if (wanted != seen_.end() && type.kind == Kind::real && type.rank() > 0)
        wanted->second = look(read_floats(buffer), type.dim(-1));
    });
  }

  Seen seen(Value value) const {
    Value from = origin(*graph_, value);
    const Node& node = graph_->node(from.node);
    if (from.type().kind == Kind::index) return {};
    if (is_source(*node.op)) return look(store_.read(node.name), 1);
    return seen_.at({node.name, from.output});
  }

  bool reads_parameter(const Node& node) const {
    auto is_parameter = [&](Value input) { return graph_->node(input.node).op == &parameter_op; };
    return std::ranges::any_of(node.inputs, is_parameter) && !is_parameter(node.inputs.front()) &&
           node.inputs.front().type().kind == Kind::real;
  }

  void add_scales(int i, NodeScales& scales) const {
    const Node& node = graph_->node(i);
    for (Value input : node.inputs) scales.inputs[node.name].push_back(seen(input).std_dev);
    scales.output[node.name] = seen({graph_.get(), i, 0}).std_dev;
  }

  void add_gradient(int i, NodeScales& scales) const {
    const Node& node = graph_->node(i);
    if (Value gradient = gradients_->of({graph_.get(), i, 0})) {
      Seen found = seen(gradient);
      scales.gradients[node.name] = {found.rms, found.rows};
    }
    if (node.op != &attention_op || !node.attributes.get<bool>("has_mask")) return;
    std::vector<float> mask = store_.read(graph_->node(node.inputs.back().node).name);
    auto filled = std::ranges::count_if(mask, [](float x) { return x > 0; });
    scales.filled_keys[node.name] = static_cast<double>(filled) / static_cast<double>(mask.size());
  }

  std::shared_ptr<Graph> graph_;
  int forward_nodes_;
  std::optional<Gradients> gradients_;
  Store store_;
  std::map<std::pair<std::string, int>, Seen> seen_;
};

}  // namespace

NodeScales measure_nodes(std::shared_ptr<Graph> model, uint64_t seed, const ModelBatch& batch) {
  return Measurement(std::move(model), seed, batch).scales();
}

}  // namespace sigma1
