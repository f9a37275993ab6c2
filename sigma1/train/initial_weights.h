// A run that begins with the weights of another: longer sequences after short ones, a task after
// pretraining.
#pragma once

#include "sigma1/runtime/store.h"
#include "sigma1/train/checkpoints.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {

class InitialWeights {
 public:
  // config.init: a checkpoint, or a run's folder. Throws Error unless its weights are at the scale
  // of this config's method, which is what they mean.
  explicit InitialWeights(const TrainConfig& config);

  // What residual layers weigh belongs to the weights. Empty where none were measured.
  const JoinWeights& joins() const { return joins_; }
  // Those of the names that the checkpoint has, into the store; the rest stays. Throws Error for
  // another shape, or when it has none of them.
  void write(Store& store, const std::vector<std::string>& names) const;

 private:
  Checkpoint checkpoint_;
  JoinWeights joins_;
};

}  // namespace sigma1
