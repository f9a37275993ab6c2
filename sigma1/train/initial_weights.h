// A run that begins with the weights of another: longer sequences after short ones, a task after
// pretraining. What a weight means depends on the model's factors, and those on method, scheme and
// sizes; so weights are scaled to compute here what they did there.
#pragma once

#include "sigma1/runtime/store.h"
#include "sigma1/train/stored_model.h"

namespace sigma1 {

class InitialWeights {
 public:
  // config.init: a checkpoint, or a run's folder. Throws Error for another vocabulary, another
  // number of layers, a parameter of another shape, or when the models have none in common.
  InitialWeights(const TrainConfig& config, const Vocabulary& vocabulary);

  // What residual layers weigh belongs to the weights. Empty where none were measured.
  const Alignment& alignment() const { return from_.alignment; }
  // Those of the names that the checkpoint has, into the store; the rest stays.
  void write(Store& store, const std::vector<std::string>& names) const;

 private:
  StoredModel from_;
  std::map<std::string, double> factors_;
};

}  // namespace sigma1
