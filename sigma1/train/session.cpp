#include "sigma1/train/session.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "sigma1/backend/reference.h"
#include "sigma1/base/error.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/train/align.h"
#include "sigma1/train/initial_weights.h"
#include "sigma1/train/stored_model.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

std::string dtype_of(const Buffer& buffer) {
  if (buffer.codec == nullptr) return buffer.kind == Kind::index ? "I32" : "F32";
  return dtype_of(buffer.codec->cast().format);
}

}  // namespace

void initialise_parameters(Store& store, const Graph& graph, uint64_t seed) {
  for (Value parameter : graph.parameters()) {
    const Node& node = graph.node(parameter.node);
    Tensor value = initial_value(node, seed);
    store.write(node.name, std::vector<float>(value.data.begin(), value.data.end()));
  }
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
  if (!corpus.source && static_cast<int64_t>(corpus.train.size()) < config_.size.time) {
    throw Error("train: expected a text of at least one sequence, {} {}s, got {}",
                config_.size.time, vocabulary_.token_name(), corpus.train.size());
  }
  initialise();
}

void Session::initialise() {
  dispatched_ = products_left_in_16_bits(config_, store_.device());
  leave_in_16_bits(config_, dispatched_);
  std::optional<InitialWeights> given;
  if (!config_.init.empty()) given.emplace(config_);
  // u-µP has its own rule of what residual layers weigh.
  bool aligns = Method::parse(config_.method).kind == Method::Kind::unit &&
                config_.align == "measure" && !config_.is_u_mup();
  if (given) {
    joins_ = given->joins();
  } else if (aligns) {
    joins_ = aligned_weights(measure_joins(config_, step_batch(config_, *corpus_, 0)));
  }
  build();
  auto seed = static_cast<uint64_t>(config_.seed);
  initialise_parameters(store_, gradients_->graph(), seed);
  if (given) given->write(store_, parameters_);
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
    throw Error("{}: expected the {} {}s of its training text, got a text of {} {}s",
                checkpoint.file.path().string(), vocabulary_.known(), vocabulary_.token_name(),
                corpus->vocabulary.known(), corpus->vocabulary.token_name());
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
  // A loss of several parts is told with them.
  StepGraph evaluation =
      evaluation_graph(config_, joins_, config_.reads_pairs() || config_.reads_questions());
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
  record();
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

void Session::record() {
  const Device& device = store_.device();
  bad_step_.emplace(device, static_cast<int64_t>(sizeof(uint64_t)));
  auto* bad_step = reinterpret_cast<uint64_t*>(bad_step_->data());
  std::vector<Buffer> gradients;
  for (const std::string& name : parameters_) gradients.push_back(store_.at(gradient_name(name)));
  std::vector<Buffer> loss{gradients_->output("loss")};
  auto update = [=, this, numbers = gradients](std::span<const Buffer> more) {
    std::vector<Buffer> all(more.begin(), more.end());
    all.insert(all.end(), numbers.begin(), numbers.end());
    store_.device().when_finite(all, update_->step_memory(), bad_step, [&] { update_->launch(); });
  };
  if (config_.accumulate == 1) {
    gradients_work_ = device.record([=, this] {
      gradients_->launch();
      update(loss);
    });
    return;
  }
  gradients_work_ = device.record([=, this] {
    gradients_->launch();
    store_.device().when_finite(loss, update_->step_memory(), bad_step, [] {});
  });
  update_work_ = device.record([=] { update({}); });
}

bool Session::scales_by_itself() const {
  return Method::parse(config_.method).kind == Method::Kind::auto_loss_scale;
}

int64_t Session::most_ahead() const {
  constexpr int64_t kMostAhead = 8;
  bool waits = &store_.device() == &cpu_device() || scales_by_itself();
  return waits ? 1 : kMostAhead;
}

StepResult Session::train_step() {
  start_step();
  return finish_step();
}

// What a step reads besides its batches.
void Session::write_inputs() {
  update_->set_step(static_cast<uint64_t>(step_));
  store_.fill(kRate, static_cast<float>(rate_at(config_.resolved_schedule(), step_)));
  std::string seed(kGradientSeed);
  auto scale = static_cast<float>(scales_by_itself() ? scaler_.scale : 1);
  if (store_.contains(seed)) store_.fill(seed, scale);
  if (store_.contains(kStepCount)) {
    store_.fill(kStepCount, static_cast<float>(step_ + 1 - scaler_.skipped));
  }
  if (store_.contains(kGradientScale)) store_.fill(kGradientScale, 1 / scale);
  if (config_.accumulate == 1) return;
  for (const std::string& name : parameters_) store_.fill(gradient_name(name), 0);
}

void Session::start_step() {
  if (corpus_ == nullptr) throw Bug("this session has no text to train on");
  if (ahead() >= most_ahead()) throw Bug("{} steps are started already", ahead());
  const Device& device = store_.device();
  Started started;
  started.result.rate = rate_at(config_.resolved_schedule(), step_);
  write_inputs();
  auto bytes = [](const void* data, size_t size) {
    return std::span(static_cast<const std::byte*>(data), size);
  };
  for (int64_t i = 0; i < config_.accumulate; ++i) {
    ModelBatch batch = step_batch(config_, *corpus_, step_, i);
    write_batch(store_, batch);
    gradients_->set_step(static_cast<uint64_t>(step_ * config_.accumulate + i));
    gradients_work_->run();
    started.losses.push_back(
        device.read_later({bytes(gradients_->output("loss").data, sizeof(float))}));
    started.weights.push_back(batch.loss_weight);
  }
  if (update_work_) update_work_->run();
  started.bad_step = device.read_later({bytes(bad_step_->data(), sizeof(uint64_t))});
  started_.push_back(std::move(started));
  ++step_;
}

StepResult Session::finish_step() {
  if (started_.empty()) throw Bug("no step is started");
  Started oldest = std::move(started_.front());
  started_.pop_front();
  StepResult result = oldest.result;
  for (size_t i = 0; i < oldest.losses.size(); ++i) {
    float loss = 0;
    oldest.losses[i]->wait(&loss);
    result.loss += static_cast<double>(loss) * oldest.weights[i];
  }
  result.loss /= static_cast<double>(config_.accumulate);
  uint64_t bad_step = 0;
  oldest.bad_step->wait(&bad_step);
  if (bad_step != 0 && !(scales_by_itself() && std::isfinite(result.loss))) {
    fail(static_cast<int64_t>(bad_step) - 1, result.loss);
  }
  result.skipped = bad_step != 0;
  constexpr uint64_t kNone = 0;
  if (result.skipped) store_.device().write(bad_step_->data(), &kNone, sizeof(kNone));
  if (scales_by_itself()) scaler_.saw(result.skipped);
  return result;
}

// No update was made since.
void Session::fail(int64_t step, double loss) {
  started_.clear();
  step_ = step;
  write_batch(store_, step_batch(config_, *corpus_, step, config_.accumulate - 1));
  std::string tensor = gradients_->first_non_finite(static_cast<uint64_t>(step));
  throw NotFinite("step {}: {} is not finite (loss {}); a smaller rate or another method may help",
                  step + 1, tensor.empty() ? "a sum of gradients" : tensor,
                  std::isnan(loss) ? NAN : loss);  // NaN has no sign that means anything
}

}  // namespace sigma1
