#include "sigma1/train/session.h"

#include <cmath>

#include "sigma1/backend/reference.h"
#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/train/align.h"
#include "sigma1/train/align_function.h"
#include "sigma1/train/initial_weights.h"

namespace sigma1 {

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

namespace {

Alignment measured_alignment(const TrainConfig& config, const Corpus& corpus) {
  std::string align = config.resolved_align();
  if (align == "none") return {};
  if (align == "measure")
    return {aligned_weights(measure_joins(config, step_batch(config, corpus, 0))), {}};
  return align_function(config, step_batch(measured_config(config), corpus, 0)).alignment;
}

}  // namespace

Session::Session(TrainConfig config, const Corpus& corpus, const Device& device)
    : config_(std::move(config)), vocabulary_(corpus.vocabulary), corpus_(&corpus), store_(device) {
  config_.size.vocabulary = static_cast<int64_t>(vocabulary_.size());
  config_.begin_with(ranks().size());
  config_.check();
  if (!corpus.source && static_cast<int64_t>(corpus.train.size()) < config_.size.time) {
    throw Error("train: expected a text of at least one sequence, {} {}s, got {}",
                config_.size.time, vocabulary_.token_name(), corpus.train.size());
  }
  initialise();
}

void Session::initialise() {
  expect_known_products(config_);
  dispatched_ = products_left_in_16_bits(config_, store_.device());
  leave_in_16_bits(config_, dispatched_);
  std::optional<InitialWeights> given;
  if (!config_.init.empty()) given.emplace(config_, vocabulary_);
  // u-µP has its own rule of what residual layers weigh.
  bool is_unit = Method::parse(config_.method).kind == Method::Kind::unit;
  if (given) {
    alignment_ = given->alignment();
  } else if (is_unit && !config_.is_u_mup()) {
    alignment_ = measured_alignment(config_, *corpus_);
  }
  build();
  auto seed = static_cast<uint64_t>(config_.seed);
  initialise_parameters(store_, gradients_->graph(), seed);
  if (given) given->write(store_, parameters_);
  for (const std::string& name : parameters_) {
    if (store_.contains(master_name(name))) store_.write(master_name(name), store_.read(name));
  }
  copy_weights();
}

// Other programs may want other copies, or these in another way.
void Session::forget_programs() {
  step_work_.reset();
  gradients_work_.reset();
  exchange_.reset();
  update_.reset();
  gradients_.reset();
  for (const WeightCopy& each : copies_) store_.remove(each.name);
  copies_.clear();
  parameters_.clear();
  kept_.clear();
}

// Whenever something else than the update has written parameters.
void Session::copy_weights() {
  if (copies_.empty()) return;
  StepGraph graph = weight_copy_graph(config_, copies_);
  Program(graph.graph, store_, graph.stored).run(0);
}

void Session::build() {
  auto seed = static_cast<uint64_t>(config_.seed);
  forget_programs();
  // A loss of several parts is told with them.
  StepGraph evaluation =
      evaluation_graph(config_, alignment_, config_.reads_pairs() || config_.reads_questions());
  evaluation_ = std::make_unique<Program>(evaluation.graph, store_, evaluation.stored, seed);
  for (Value parameter : evaluation.graph->parameters()) {
    parameters_.push_back(evaluation.graph->node(parameter.node).name);
  }
  if (corpus_ == nullptr) {
    for (const std::string& name : parameters_) kept_.push_back(kept_tensor(store_, name));
    return;
  }
  StepGraph gradients = gradient_graph(config_, alignment_, store_.device());
  copies_ = keep_weight_casts(*gradients.graph);
  gradients_ = std::make_unique<Program>(gradients.graph, store_, gradients.stored, seed);
  if (config_.meets_ranks())
    exchange_ = std::make_unique<RankExchange>(config_, gradients, copies_, store_);
  StepGraph update = update_graph(config_, alignment_, copies_, [&](const auto& name) {
    return !exchange_ || exchange_->owns(name);
  });
  update_ = std::make_unique<Program>(update.graph, store_, update.stored, seed);
  // Copies are made anew from what a checkpoint holds.
  kept_ =
      kept_tensors(update_graph(config_, alignment_), exchange_ ? exchange_->owners() : Owners(),
                   exchange_ ? exchange_->as_copies() : std::set<std::string>());
  for (const auto& [output, name] : gradients.stored) {
    if (name.ends_with("/amax_history")) kept_.push_back(kept_tensor(store_, name));
  }
  record();
}

void Session::demote(const std::string& product) {
  std::string before = config_.matmul_overrides;
  set_overrides(before + (before.empty() ? "" : ",") + product + "=fp16");
}

void Session::share_weights() {
  if (!has_whole_weights_) exchange_->gather_whole_weights();
  has_whole_weights_ = true;
}

void Session::copy_parameters(const Graph& graph, Store& to) const {
  if (!has_whole_weights_) throw Bug("weights are with their owners");
  for (Value parameter : graph.parameters()) {
    to.copy(graph.node(parameter.node).name, store_);
  }
}

void Session::set_overrides(const std::string& matmul_overrides) {
  if (!has_whole_weights_) throw Bug("weights are with their owners");
  config_.matmul_overrides = matmul_overrides;
  build();
  copy_weights();
}

void Session::record() {
  const Device& device = store_.device();
  bad_step_.emplace(device, static_cast<int64_t>(sizeof(uint64_t)));
  auto* bad_step = reinterpret_cast<uint64_t*>(bad_step_->data());
  std::vector<Buffer> loss{gradients_->output("loss")}, numbers = loss;
  for (const std::string& name : parameters_) {
    bool owns = !exchange_ || exchange_->owns(name);
    if (owns) numbers.push_back(store_.at(gradient_name(name)));
  }
  if (config_.own_parts() > 1) {
    gradients_work_ = device.record([=, this] {
      gradients_->launch();
      store_.device().when_finite(loss, update_->step_memory(), bad_step, {});
    });
  }
  step_work_ = device.record([=, this] {
    exchange_ ? exchange_->sum_gradients(*gradients_) : gradients_->launch();
    update_when_finite(numbers, bad_step);
  });
}

// Where ranks meet, all of them have to come by, whatever one has found. Weights that nobody
// updated are gathered as they are.
void Session::update_when_finite(std::span<const Buffer> numbers, uint64_t* bad_step) {
  const Device& device = store_.device();
  auto update = [this] { update_->launch(); };
  if (!exchange_) return device.when_finite(numbers, update_->step_memory(), bad_step, update);
  device.when_finite(numbers, update_->step_memory(), bad_step, {});
  exchange_->agree(bad_step);
  device.when_finite({}, update_->step_memory(), bad_step, update);
  exchange_->gather_weights();
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
  if (config_.own_parts() == 1) return;
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
  for (int64_t i = 0; i < config_.own_parts(); ++i) {
    int64_t part = ranks().rank() * config_.own_parts() + i;
    ModelBatch batch = step_batch(config_, *corpus_, step_, part);
    write_batch(store_, batch);
    gradients_->set_step(static_cast<uint64_t>(step_ * config_.parts() + part));
    bool is_last = i + 1 == config_.own_parts();
    (is_last ? step_work_ : gradients_work_)->run();
    started.losses.push_back(
        device.read_later({bytes(gradients_->output("loss").data, sizeof(float))}));
    started.weights.push_back(batch.loss_weight);
  }
  started.bad_step = device.read_later({bytes(bad_step_->data(), sizeof(uint64_t))});
  started_.push_back(std::move(started));
  has_whole_weights_ = !exchange_ || exchange_->as_copies().empty();
  ++step_;
}

StepResult Session::finish_step() {
  if (started_.empty()) throw Bug("no step is started");
  Started oldest = std::move(started_.front());
  started_.pop_front();
  StepResult result = oldest.result;
  // Who waits for a GPU does not see that another rank has stopped; who waits for the rank does.
  if (exchange_ && &store_.device() != &cpu_device()) barrier(ranks());
  for (size_t i = 0; i < oldest.losses.size(); ++i) {
    float loss = 0;
    oldest.losses[i]->wait(&loss);
    result.loss += static_cast<double>(loss) * oldest.weights[i];
  }
  if (exchange_) result.loss = sum_over_ranks(ranks(), {result.loss}).front();
  result.loss /= static_cast<double>(config_.parts());
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
  int64_t last = (ranks().rank() + 1) * config_.own_parts() - 1;
  write_batch(store_, step_batch(config_, *corpus_, step, last));
  std::string tensor;
  for (const std::string& each :
       gather_texts(ranks(), gradients_->first_non_finite(static_cast<uint64_t>(step)))) {
    if (tensor.empty()) tensor = each;
  }
  throw NotFinite("step {}: {} is not finite (loss {}); a smaller rate or another method may help",
                  step + 1, tensor.empty() ? "a sum of gradients" : tensor,
                  std::isnan(loss) ? NAN : loss);  // NaN has no sign that means anything
}

}  // namespace sigma1
