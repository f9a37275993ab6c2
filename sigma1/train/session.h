// A model in training: its store and programs, one step or one evaluation at a time. Files, metrics
// and people are the trainer's business.
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "sigma1/base/error.h"
#include "sigma1/runtime/program.h"
#include "sigma1/train/batch_source.h"
#include "sigma1/train/checkpoints.h"
#include "sigma1/train/corpus.h"
#include "sigma1/train/evaluation.h"
#include "sigma1/train/kept_tensors.h"
#include "sigma1/train/product_dispatch.h"
#include "sigma1/train/rank_exchange.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {

// Parameters as their initialisation says, random numbers keyed by name.
void initialise_parameters(Store& store, const Graph& graph, uint64_t seed);
void write_batch(Store& store, const ModelBatch& batch);
// What a run reads at a step; `part` of those whose gradients it sums.
ModelBatch step_batch(const TrainConfig& config, const Corpus& corpus, int64_t step,
                      int64_t part = 0);

// A run that went to infinity: no mistake of the user's in a sweep, which looks for the limit.
class NotFinite : public Error {
 public:
  using Error::Error;
};

struct StepResult {
  double loss = 0;  // nats per counted token
  double rate = 0;
  bool skipped = false;  // the loss scale was too large for this step
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
  int64_t step() const { return step_; }  // steps done, or started
  const LossScaler& loss_scaler() const { return scaler_; }
  const Program& gradients() const { return *gradients_; }
  Program& gradients() { return *gradients_; }
  const Alignment& alignment() const { return alignment_; }

  // Products that this device computes no faster in 8 bits: a new run leaves them in 16.
  const std::vector<Dispatched>& dispatched() const { return dispatched_; }

  // Throws NotFinite naming the first tensor that is not finite.
  StepResult train_step();
  // Its two halves: a GPU can be given several steps before the first one's result is looked at.
  // At most most_ahead() may be started and not finished; the oldest is finished first. After
  // NotFinite the model is as it was before the step that failed.
  void start_step();
  StepResult finish_step();
  int64_t most_ahead() const;
  int64_t ahead() const { return static_cast<int64_t>(started_.size()); }
  Evaluation evaluate(std::span<const uint16_t> text,
                      const std::function<void(int64_t done, int64_t total)>& progress = {});
  // By what a corpus that is no text keeps for validation.
  Evaluation evaluate(const BatchSource& source, const BatchSource::Progress& progress = {});
  void save(const std::filesystem::path& folder) const;

  // From now on the matrix product reads fp16, or what is stored in 16 bits, instead of its 8.
  void demote(const std::string& product);
  // The same for several at once, by what the config says then.
  void set_overrides(const std::string& matmul_overrides);

  const Store& store() const { return store_; }

  // Where ranks hand each other copies of weights (RankExchange), a step leaves parameters with
  // their owners alone. All ranks call share_weights(), which evaluate() does too, to have them.
  void share_weights();
  bool has_whole_weights() const { return has_whole_weights_; }
  // The parameters of another graph of this model, to that one's store. Throws Bug where weights
  // have not been shared.
  void copy_parameters(const Graph& graph, Store& to) const;

  // Bytes on the device: what outlives a step, and what its programs work in.
  struct Memory {
    int64_t kept = 0, activations = 0, workspace = 0;
  };
  Memory memory() const;
  int64_t checkpoint_bytes() const;

 private:
  void initialise();
  void build();
  void forget_programs();
  void copy_weights();
  void record();
  void update_when_finite(std::span<const Buffer> numbers, uint64_t* bad_step);
  void restore(const Checkpoint& checkpoint);
  void write_inputs();
  bool scales_by_itself() const;
  [[noreturn]] void fail(int64_t step, double loss);

  TrainConfig config_;
  Vocabulary vocabulary_;
  const Corpus* corpus_ = nullptr;
  std::vector<Dispatched> dispatched_;
  Alignment alignment_;
  Store store_;
  std::unique_ptr<Program> gradients_, update_, evaluation_;
  // A step: gradients of each batch but the last, then those of the last and the update.
  std::unique_ptr<Recording> gradients_work_, step_work_;
  std::optional<DeviceBytes> bad_step_;  // the first step that was not finite, from 1; else 0
  struct Started {
    StepResult result;
    std::vector<std::unique_ptr<Readout>> losses;  // of the batches
    std::vector<double> weights;                   // by which they count
    std::unique_ptr<Readout> bad_step;
  };
  std::deque<Started> started_;
  LossScaler scaler_;
  std::unique_ptr<RankExchange> exchange_;  // where ranks meet
  bool has_whole_weights_ = true;
  std::vector<std::string> parameters_;
  std::vector<WeightCopy> copies_;  // of parameters, for the gradients' products
  std::vector<KeptTensor> kept_;    // what a checkpoint holds
  int64_t step_ = 0;
};

}  // namespace sigma1
