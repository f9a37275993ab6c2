// What a session tells about itself: how well its model does, and what it takes.
#include <numbers>
#include <numeric>

#include "sigma1/base/communicator.h"
#include "sigma1/train/session.h"

namespace sigma1 {
namespace {

double counted(const Batch& batch) {
  double sum = 0;
  for (float weight : batch.mask) sum += weight;
  return sum;
}

}  // namespace

Session::Memory Session::memory() const {
  Memory all{.kept = store_.all_bytes()};
  for (const Program* program : {gradients_.get(), update_.get(), evaluation_.get()}) {
    if (program == nullptr) continue;
    MemoryUse use = program->memory();
    all.activations += use.arena + use.constants;
    all.workspace += use.workspace;
  }
  if (exchange_) all.workspace += exchange_->memory().workspace;
  return all;
}

Evaluation Session::evaluate(std::span<const uint16_t> text,
                             const std::function<void(int64_t, int64_t)>& progress) {
  share_weights();
  WindowSizes sizes{config_.size.time, config_.context};
  int64_t windows = evaluation_windows(static_cast<int64_t>(text.size()), sizes);
  Evaluation result;
  // By batch, so that the sum does not depend on who computed which.
  std::vector<double> nats_of, characters_of;
  for (int64_t first = 0; first < windows; first += config_.size.batch) {
    if (progress) progress(first, windows);
    nats_of.push_back(0);
    characters_of.push_back(0);
    if (exchange_ && !is_own_work(first / config_.size.batch)) continue;
    Batch batch = evaluation_batch(text, first, config_.size.batch, sizes);
    write_batch(store_, batch);
    evaluation_->run(0);
    nats_of.back() = evaluation_->scalar("loss") * static_cast<double>(batch.mask.size());
    characters_of.back() = counted(batch);
  }
  if (exchange_) {
    nats_of = sum_over_ranks(ranks(), nats_of);
    characters_of = sum_over_ranks(ranks(), characters_of);
  }
  double nats = std::accumulate(nats_of.begin(), nats_of.end(), 0.0);
  double characters = std::accumulate(characters_of.begin(), characters_of.end(), 0.0);
  result.characters = static_cast<int64_t>(characters);
  result.loss = nats / characters;
  result.bits_per_character = result.loss / std::numbers::ln2;
  result.kind = vocabulary_.kind();
  return result;
}

// Whole in every rank: what a source reads off the model's outputs is its own business, and cannot
// be summed here. Weights are the same everywhere, and so are results.
Evaluation Session::evaluate(const BatchSource& source, const BatchSource::Progress& progress) {
  share_weights();
  auto run = [&](const ModelBatch& batch) -> const Program& {
    write_batch(store_, batch);
    evaluation_->run(0);
    return *evaluation_;
  };
  Evaluation result = source.evaluate(config_, run, progress);
  result.kind = vocabulary_.kind();
  return result;
}

}  // namespace sigma1
