#include "tests/exchange/bert_example.h"

#include "sigma1/graph/sources.h"
#include "sigma1/train/session.h"

namespace sigma1 {
namespace {

constexpr int64_t kWords = 50;

}  // namespace

TrainConfig bert_config(const std::string& model, const std::string& method,
                        const std::string& scheme) {
  TrainConfig config;
  config.model = model;
  config.size = find_model(model).defaults();
  config.size.batch = 2;
  config.size.time = 7;
  config.size.width = 12;
  config.size.hidden = 20;
  config.size.depth = 2;
  config.size.heads = 3;
  config.size.positions = 9;
  config.size.predictions = 2;
  config.size.vocabulary = 64;
  config.method = method;
  config.scheme = scheme;
  config.precision = "fp32";
  return config;
}

StoredModel bert_example(const TrainConfig& config, const Alignment& alignment) {
  StoredModel model{.config = config,
                    .vocabulary = Vocabulary::of_ids(kWords),
                    .alignment = alignment,
                    .parameters = {}};
  std::shared_ptr<Graph> graph = scaled_model(config, alignment);
  for (Value parameter : graph->parameters()) {
    const Node& node = graph->node(parameter.node);
    Tensor start = initial_value(node, 5), noise = normal_tensor(start.shape, node.name, 6);
    std::vector<float>& numbers = model.parameters[node.name];
    for (int64_t i = 0; i < start.count(); ++i)
      numbers.push_back(static_cast<float>(start[i] + 0.1 * noise[i]));
  }
  return model;
}

std::string bert_vocabulary() {
  std::string lines = "[UNK]\n";
  for (int64_t i = 1; i < kWords; ++i) lines += "word" + std::to_string(i) + "\n";
  return lines;
}

Bindings bert_inputs(const Graph& graph, int64_t words) {
  std::map<std::string, int64_t> limits{
      {"tokens", words}, {"segments", 2}, {"masked_positions", 5}};
  Bindings inputs;
  for (const Node& node : graph.nodes()) {
    if (node.op != &input_op) continue;
    const TensorType& type = node.outputs.front();
    if (type.kind == Kind::index) {
      auto limit = limits.find(node.name);  // what belongs to a loss is not read
      inputs[node.name] =
          index_tensor(type.shape, limit == limits.end() ? 1 : limit->second, node.name, 1);
      continue;
    }
    Tensor padding(type.shape);
    for (int64_t i = 0; i < padding.count(); ++i) padding[i] = i < padding.count() - 2 ? 1 : 0;
    inputs[node.name] = padding;
  }
  return inputs;
}

std::map<std::string, Tensor> bert_scores(const StoredModel& model, const Bindings& inputs) {
  std::shared_ptr<Graph> graph = forward_graph(model.config, model.alignment);
  Bindings bindings = inputs;
  for (Value parameter : graph->parameters()) {
    const std::string& name = graph->node(parameter.node).name;
    const std::vector<float>& numbers = model.parameters.at(name);
    bindings[name] = Tensor(parameter.shape(), {numbers.begin(), numbers.end()});
  }
  ReferenceResult result = run_reference(*graph, bindings);
  std::map<std::string, Tensor> scores;
  for (const auto& [name, value] : graph->outputs()) scores[name] = result[value];
  return scores;
}

namespace {

// A single batch, and what the model made of it.
class Asked : public BatchSource {
 public:
  explicit Asked(const Bindings& inputs) : inputs_(inputs) {}

  ModelBatch training(const TrainConfig&, int64_t) const override {
    throw Bug("nothing is trained here");
  }
  Evaluation evaluate(const TrainConfig& config, const Run& run, const Progress&) const override {
    std::shared_ptr<Graph> graph = forward_graph(config, {});
    const Program& program = run(batch(*graph));
    for (const auto& [name, value] : graph->outputs()) {
      std::vector<float> numbers = read_floats(program.output(name));
      scores[name] = Tensor(value.shape(), {numbers.begin(), numbers.end()});
    }
    return {};
  }

  mutable std::map<std::string, Tensor> scores;

 private:
  ModelBatch batch(const Graph& graph) const {
    ModelBatch result;
    for (const Node& node : graph.nodes()) {
      if (node.op != &input_op || !inputs_.contains(node.name)) continue;
      const Tensor& tensor = inputs_.at(node.name);
      if (node.outputs.front().kind == Kind::index) {
        result.indices.push_back({node.name, {tensor.data.begin(), tensor.data.end()}});
      } else {
        result.numbers.push_back({node.name, {tensor.data.begin(), tensor.data.end()}});
      }
    }
    return result;
  }

  const Bindings& inputs_;
};

}  // namespace

std::map<std::string, Tensor> engine_scores(const Checkpoint& checkpoint, const Bindings& inputs) {
  Asked asked(inputs);
  Session(checkpoint, nullptr).evaluate(asked);
  return asked.scores;
}

}  // namespace sigma1
