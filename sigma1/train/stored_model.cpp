#include "sigma1/train/stored_model.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "sigma1/base/error.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/numerics/convert.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, const char*> kDtypes[] = {
    {"fp32", "F32"}, {"fp16", "F16"}, {"bf16", "BF16"}, {"e4m3", "F8_E4M3"}, {"e5m2", "F8_E5M2"}};

std::string text_of(const Checkpoint& checkpoint, const char* key) {
  const Metadata& metadata = checkpoint.file.metadata();
  auto found = metadata.find(key);
  if (found != metadata.end()) return found->second;
  throw Error("{}: expected a checkpoint of sigma1, got one without '{}'",
              checkpoint.file.path().string(), key);
}

Alignment alignment_of(const Checkpoint& checkpoint) {
  Json state = Json::parse(text_of(checkpoint, "state"), nullptr, false);
  if (!state.is_object()) throw Error("{}: its state is not JSON", checkpoint.file.path().string());
  return {state.value("joins", decltype(Alignment::weights){}),
          state.value("settings", decltype(Alignment::settings){})};
}

}  // namespace

std::vector<float> tensor_numbers(const StoredTensor& tensor, const std::string& path) {
  std::vector<float> numbers(static_cast<size_t>(element_count(tensor.shape)));
  for (const auto& [name, dtype] : kDtypes) {
    if (tensor.dtype != dtype) continue;
    Codec codec({.format = find_format(name).format});
    codec.decode(tensor.data.data(), numbers.data(), static_cast<int64_t>(numbers.size()));
    return numbers;
  }
  throw Error("{}: {}: expected real numbers, got {}", path, tensor.name, tensor.dtype);
}

std::string dtype_of(const FloatFormat& format) {
  for (const auto& [name, dtype] : kDtypes) {
    if (find_format(name).format == format) return dtype;
  }
  throw Error("checkpoint: no dtype for a format of {} bits; store fp16, bf16, e4m3 or e5m2",
              format.bits());
}

TrainConfig read_config(const Checkpoint& checkpoint) {
  TrainConfig config =
      TrainConfig::from_json(text_of(checkpoint, "config"), checkpoint.file.path().string());
  Vocabulary vocabulary = Vocabulary::parse(text_of(checkpoint, "vocabulary"));
  config.size.vocabulary = static_cast<int64_t>(vocabulary.size());
  return config;
}

StoredModel read_model(const Checkpoint& checkpoint) {
  std::string path = checkpoint.file.path().string();
  StoredModel model{.config = read_config(checkpoint),
                    .vocabulary = Vocabulary::parse(text_of(checkpoint, "vocabulary")),
                    .alignment = alignment_of(checkpoint),
                    .parameters = {}};
  std::shared_ptr<Graph> graph = scaled_model(model.config, model.alignment);
  for (Value parameter : graph->parameters()) {
    const std::string& name = graph->node(parameter.node).name;
    const StoredTensor* master = checkpoint.file.find(master_name(name));
    const StoredTensor& tensor = master ? *master : checkpoint.file.at(name);
    if (tensor.shape != parameter.shape())
      throw Error("{}: {}: expected {}, got {}", path, name, to_string(parameter.shape()),
                  to_string(tensor.shape));
    model.parameters[name] = tensor_numbers(tensor, path);
  }
  return model;
}

void write_model(const std::filesystem::path& folder, const StoredModel& model) {
  Cast cast = storage_cast(model.config.resolved_precision().weights);
  Codec codec(cast);
  std::shared_ptr<Graph> graph = scaled_model(model.config, model.alignment);
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<std::byte>> contents;
  for (Value parameter : graph->parameters()) {
    const std::string& name = graph->node(parameter.node).name;
    const std::vector<float>& numbers = model.parameters.at(name);
    auto count = static_cast<int64_t>(numbers.size());
    contents.emplace_back(static_cast<size_t>(count * codec.bytes()));
    codec.encode(numbers.data(), contents.back().data(), count);
    tensors.push_back({name, dtype_of(cast.format), parameter.shape(), contents.back()});
  }
  Json state{{"joins", model.alignment.weights}, {"settings", model.alignment.settings}};
  save_checkpoint(folder, 0, tensors,
                  {{"config", model.config.to_json()},
                   {"vocabulary", model.vocabulary.serialize()},
                   {"state", state.dump()}},
                  1);
}

namespace {

// Losses are no use without targets.
void keep_scores(Graph& graph) {
  std::vector<std::string> scores;
  for (const auto& [name, value] : graph.outputs()) {
    if (!name.ends_with("loss")) scores.push_back(name);
  }
  if (!scores.empty()) graph.keep_outputs(scores);
}

}  // namespace

std::shared_ptr<Graph> forward_graph(const TrainConfig& config, const Alignment& alignment,
                                     int64_t batch) {
  std::shared_ptr<Graph> graph = scaled_model(config, alignment);
  if (batch > 0 && batch != config.size.batch) {
    TrainConfig other = config;
    other.size.batch = batch;
    std::shared_ptr<Graph> resized = scaled_model(other, alignment);
    if (resized->size() != graph->size()) throw Bug("another batch makes another graph");
    for (int i = 0; i < graph->size(); ++i) resized->node(i).alpha = graph->node(i).alpha;
    graph = resized;
  }
  keep_scores(*graph);
  remove_dead_nodes(*graph);
  return graph;
}

}  // namespace sigma1
