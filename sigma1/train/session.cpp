#include "sigma1/train/session.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "sigma1/backend/reference.h"
#include "sigma1/base/error.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/train/align.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

WindowSizes window_sizes(const TrainConfig& config) { return {config.size.time, config.context}; }

double counted(const Batch& batch) {
  double sum = 0;
  for (float weight : batch.mask) sum += weight;
  return sum;
}

std::string dtype_of(const Buffer& buffer) {
  if (buffer.codec == nullptr) return buffer.kind == Kind::index ? "I32" : "F32";
  const FloatFormat& format = buffer.codec->cast().format;
  for (auto [name, dtype] :
       {std::pair{"fp16", "F16"}, {"bf16", "BF16"}, {"e4m3", "F8_E4M3"}, {"e5m2", "F8_E5M2"}}) {
    if (find_format(name).format == format) return dtype;
  }
  throw Error("checkpoint: no dtype for a format of {} bits; store fp16, bf16, e4m3 or e5m2",
              format.bits());
}

}  // namespace

void initialise_parameters(Store& store, const Graph& graph, uint64_t seed) {
  for (Value parameter : graph.parameters()) {
    const Node& node = graph.node(parameter.node);
    Tensor value = initial_value(node, seed);
    store.write(node.name, std::vector<float>(value.data.begin(), value.data.end()));
  }
}

void write_batch(Store& store, const Batch& batch) {
  store.write_indices("tokens", std::vector<int32_t>(batch.tokens.begin(), batch.tokens.end()));
  store.write("mask", batch.mask);
}

Batch step_batch(const TrainConfig& config, const Corpus& corpus, int64_t step, int64_t part) {
  auto index = static_cast<uint64_t>(step * config.accumulate + part);
  return training_batch(corpus.train, config.size.batch, static_cast<uint64_t>(config.seed), index,
                        window_sizes(config));
}

void LossScaler::saw(bool overflow) {
  constexpr int64_t kGrowAfter = 2000;  // steps, as in Micikevicius et al. (2018)
  if (overflow) {
    scale = std::max(scale / 2, 0x1p-14);
    good_steps = 0;
    ++skipped;
  } else if (++good_steps == kGrowAfter) {
    scale = std::min(scale * 2, 0x1p24);
    good_steps = 0;
  }
}

Session::Session(TrainConfig config, const Corpus& corpus, const Device& device)
    : config_(std::move(config)), vocabulary_(corpus.vocabulary), corpus_(&corpus), store_(device) {
  config_.size.vocabulary = static_cast<int64_t>(vocabulary_.size());
  config_.check();
  if (static_cast<int64_t>(corpus.train.size()) < config_.size.time) {
    throw Error("train: expected a text of at least one sequence, {} characters, got {}",
                config_.size.time, corpus.train.size());
  }
  bool aligns =
      Method::parse(config_.method).kind == Method::Kind::unit && config_.align == "measure";
  if (aligns) {
    joins_ = aligned_weights(measure_joins(config_, step_batch(config_, corpus, 0)));
  }
  build();
  auto seed = static_cast<uint64_t>(config_.seed);
  initialise_parameters(store_, gradients_->graph(), seed);
  for (const std::string& name : parameters_) {
    if (store_.contains(master_name(name))) store_.write(master_name(name), store_.read(name));
  }
}

Session::Session(const Checkpoint& checkpoint, const Corpus* corpus, const Device& device)
    : corpus_(corpus), store_(device) {
  const Metadata& metadata = checkpoint.file.metadata();
  auto text = [&](const char* key) {
    auto found = metadata.find(key);
    if (found == metadata.end()) {
      throw Error("{}: expected a checkpoint of sigma1 train, got one without '{}'",
                  checkpoint.file.path().string(), key);
    }
    return found->second;
  };
  config_ = TrainConfig::from_json(text("config"), checkpoint.file.path().string());
  vocabulary_ = Vocabulary::parse(text("vocabulary"));
  if (corpus && !(corpus->vocabulary == vocabulary_)) {
    throw Error("{}: expected the {} characters of its training text, got a text of {} others",
                checkpoint.file.path().string(), vocabulary_.size(), corpus->vocabulary.size());
  }
  config_.size.vocabulary = static_cast<int64_t>(vocabulary_.size());
  Json state = Json::parse(text("state"), nullptr, false);
  if (!state.is_object()) {
    throw Error("{}: its state is not JSON", checkpoint.file.path().string());
  }
  joins_ = state.value("joins", JoinWeights{});
  scaler_.scale = state.value("loss_scale", scaler_.scale);
  scaler_.good_steps = state.value("good_steps", int64_t{0});
  scaler_.skipped = state.value("skipped", int64_t{0});
  step_ = checkpoint.step;
  config_.check();
  build();
  restore(checkpoint);
}

void Session::build() {
  auto seed = static_cast<uint64_t>(config_.seed);
  parameters_.clear();
  kept_.clear();
  StepGraph evaluation = evaluation_graph(config_, joins_);
  evaluation_ = std::make_unique<Program>(evaluation.graph, store_, evaluation.stored, seed);
  for (Value parameter : evaluation.graph->parameters()) {
    parameters_.push_back(evaluation.graph->node(parameter.node).name);
  }
  if (corpus_ == nullptr) {
    kept_ = parameters_;
    return;
  }
  StepGraph gradients = gradient_graph(config_, joins_);
  gradients_ = std::make_unique<Program>(gradients.graph, store_, gradients.stored, seed);
  StepGraph update = update_graph(config_, joins_);
  update_ = std::make_unique<Program>(update.graph, store_, update.stored, seed);
  for (const auto& [output, name] : update.stored) kept_.push_back(name);
  for (const auto& [output, name] : gradients.stored) {
    if (name.ends_with("/amax_history")) kept_.push_back(name);
  }
  // A format that no checkpoint can hold should not be found out after hours.
  for (const std::string& name : kept_) dtype_of(store_.at(name));
}

void Session::restore(const Checkpoint& checkpoint) {
  for (const std::string& name : kept_) {
    const StoredTensor& tensor = checkpoint.file.at(name);
    const Buffer& buffer = store_.at(name);
    if (tensor.shape != buffer.shape || tensor.dtype != dtype_of(buffer)) {
      throw Error("{}: {}: expected {} {}, got {} {}", checkpoint.file.path().string(), name,
                  dtype_of(buffer), to_string(buffer.shape), tensor.dtype, to_string(tensor.shape));
    }
    store_.write_bytes(name, tensor.data);
  }
}

void Session::save(const std::filesystem::path& folder) const {
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<std::byte>> contents;
  for (const std::string& name : kept_) {
    const Buffer& buffer = store_.at(name);
    contents.push_back(store_.read_bytes(name));
    tensors.push_back({name, dtype_of(buffer), buffer.shape, contents.back()});
  }
  Json state{{"joins", joins_},
             {"loss_scale", scaler_.scale},
             {"good_steps", scaler_.good_steps},
             {"skipped", scaler_.skipped}};
  Metadata metadata{{"config", config_.to_json()},
                    {"vocabulary", vocabulary_.serialize()},
                    {"state", state.dump()}};
  save_checkpoint(folder, step_, tensors, metadata,
                  static_cast<int>(std::min<int64_t>(config_.keep_checkpoints, 1 << 30)));
}

void Session::demote(const std::string& product) {
  if (!config_.matmul_overrides.empty()) config_.matmul_overrides += ",";
  config_.matmul_overrides += product + "=fp16";
  build();
}

// Runs every batch of the step; gives the mean loss.
double Session::accumulate_gradients(double seed_gradient) {
  double loss = 0;
  if (config_.accumulate > 1) {
    for (const std::string& name : parameters_) store_.fill(gradient_name(name), 0);
  }
  std::string seed_name(kGradientSeed);
  if (store_.contains(seed_name)) store_.fill(seed_name, static_cast<float>(seed_gradient));
  for (int64_t i = 0; i < config_.accumulate; ++i) {
    Batch batch = step_batch(config_, *corpus_, step_, i);
    write_batch(store_, batch);
    gradients_->run(static_cast<uint64_t>(step_ * config_.accumulate + i));
    double positions = static_cast<double>(batch.mask.size());
    loss += gradients_->scalar("loss") * positions / counted(batch);
  }
  return loss / static_cast<double>(config_.accumulate);
}

bool Session::gradients_finite() const {
  std::vector<Buffer> gradients;
  for (const std::string& name : parameters_) gradients.push_back(store_.at(gradient_name(name)));
  return store_.device().are_finite(gradients);
}

StepResult Session::train_step() {
  if (corpus_ == nullptr) throw Bug("this session has no text to train on");
  bool automatic = Method::parse(config_.method).kind == Method::Kind::auto_loss_scale;
  StepResult result;
  result.rate = rate_at(config_.resolved_schedule(), step_);
  result.loss = accumulate_gradients(automatic ? scaler_.scale : 1);
  bool finite = std::isfinite(result.loss) && gradients_finite();
  if (!finite && !(automatic && std::isfinite(result.loss))) {
    std::string tensor = gradients_->first_non_finite(static_cast<uint64_t>(step_));
    throw NotFinite(
        "step {}: {} is not finite (loss {}); a smaller rate or another method may help", step_ + 1,
        tensor.empty() ? "a sum of gradients" : tensor,
        std::isnan(result.loss) ? NAN : result.loss);  // NaN has no sign that means anything
  }
  result.skipped = !finite;
  if (finite) {
    store_.fill(kRate, static_cast<float>(result.rate));
    if (store_.contains(kStepCount)) {
      store_.fill(kStepCount, static_cast<float>(step_ + 1 - scaler_.skipped));
    }
    if (store_.contains(kGradientScale)) {
      store_.fill(kGradientScale, static_cast<float>(1 / scaler_.scale));
    }
    update_->run(static_cast<uint64_t>(step_));
  }
  if (automatic) scaler_.saw(!finite);
  ++step_;
  return result;
}

Evaluation Session::evaluate(std::span<const uint16_t> text,
                             const std::function<void(int64_t, int64_t)>& progress) {
  WindowSizes sizes = window_sizes(config_);
  int64_t windows = evaluation_windows(static_cast<int64_t>(text.size()), sizes);
  Evaluation result;
  double nats = 0, characters = 0;
  for (int64_t first = 0; first < windows; first += config_.size.batch) {
    if (progress) progress(first, windows);
    Batch batch = evaluation_batch(text, first, config_.size.batch, sizes);
    write_batch(store_, batch);
    evaluation_->run(0);
    nats += evaluation_->scalar("loss") * static_cast<double>(batch.mask.size());
    characters += counted(batch);
  }
  result.characters = static_cast<int64_t>(characters);
  result.loss = nats / characters;
  result.bits_per_character = result.loss / std::numbers::ln2;
  return result;
}

}  // namespace sigma1
