// A model in training: its store and programs, one step or one evaluation at a time. Files, metrics
// and people are the trainer's business.
#pragma once

#include <functional>
#include <optional>

#include "sigma1/base/error.h"
#include "sigma1/data/windows.h"
#include "sigma1/runtime/program.h"
#include "sigma1/train/checkpoints.h"
#include "sigma1/train/corpus.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {

// Parameters as their initialisation says, random numbers keyed by name.
void initialise_parameters(Store& store, const Graph& graph, uint64_t seed);
void write_batch(Store& store, const Batch& batch);
// What a run reads at a step; `part` of those whose gradients it sums.
Batch step_batch(const TrainConfig& config, const Corpus& corpus, int64_t step, int64_t part = 0);

// A run that went to infinity: no mistake of the user's in a sweep, which looks for the limit.
class NotFinite : public Error {
 public:
  using Error::Error;
};

struct StepResult {
  double loss = 0;  // nats per counted character
  double rate = 0;
  bool skipped = false;  // the loss scale was too large for this step
};

struct Evaluation {
  double loss = 0, bits_per_character = 0;
  int64_t characters = 0;
};

// The scale of automatic loss scaling, and how it moves.
struct LossScaler {
  double scale = 0x1p16;
  int64_t good_steps = 0, skipped = 0;

  void saw(bool overflow);
};

class Session {
 public:
  // A new run. `corpus` must outlive it; config.size.vocabulary is set from it.
  Session(TrainConfig config, const Corpus& corpus, const Device& device = cpu_device());
  // From a checkpoint's metadata and tensors. Without a corpus it can evaluate and generate only.
  Session(const Checkpoint& checkpoint, const Corpus* corpus, const Device& device = cpu_device());

  const TrainConfig& config() const { return config_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  int64_t step() const { return step_; }  // steps done
  const LossScaler& loss_scaler() const { return scaler_; }
  const Program& gradients() const { return *gradients_; }
  Program& gradients() { return *gradients_; }
  const JoinWeights& joins() const { return joins_; }

  // Throws NotFinite naming the first tensor that is not finite.
  StepResult train_step();
  Evaluation evaluate(std::span<const uint16_t> text,
                      const std::function<void(int64_t done, int64_t total)>& progress = {});
  void save(const std::filesystem::path& folder) const;

  // From now on the matrix product reads fp16, or what is stored in 16 bits, instead of its 8.
  void demote(const std::string& product);

  const Store& store() const { return store_; }

 private:
  void build();
  void restore(const Checkpoint& checkpoint);
  double accumulate_gradients(double seed_gradient);
  bool gradients_finite() const;

  TrainConfig config_;
  Vocabulary vocabulary_;
  const Corpus* corpus_ = nullptr;
  JoinWeights joins_;
  Store store_;
  std::unique_ptr<Program> gradients_, update_, evaluation_;
  LossScaler scaler_;
  std::vector<std::string> parameters_, kept_;  // kept: what a checkpoint holds
  int64_t step_ = 0;
};

}  // namespace sigma1
