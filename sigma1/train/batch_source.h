// What a model reads at a step, as named tensors, and where it comes from. Windows of a text's
// tokens are the common case and part of Corpus; what is made otherwise is a BatchSource.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sigma1/data/windows.h"
#include "sigma1/runtime/program.h"
#include "sigma1/train/evaluation.h"

namespace sigma1 {

struct TrainConfig;

struct ModelBatch {
  std::vector<std::pair<std::string, std::vector<int32_t>>> indices;
  std::vector<std::pair<std::string, std::vector<float>>> numbers;
  double loss_weight = 1;  // by which a loss over all rows is one over those that count

  ModelBatch() = default;
  // Windows are a batch like any other: inputs `tokens` and `mask`.
  ModelBatch(const Batch& windows);
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // The index-th of a run, from 0. A pure function: a run that is resumed sees what it would have
  // seen.
  virtual ModelBatch training(const TrainConfig& config, int64_t index) const = 0;

  // Runs the model forward on a batch; its outputs are valid until the next.
  using Run = std::function<const Program&(const ModelBatch& batch)>;
  using Progress = std::function<void(int64_t done, int64_t total)>;
  // On what is kept for validation.
  virtual Evaluation evaluate(const TrainConfig& config, const Run& run,
                              const Progress& progress) const = 0;
};

}  // namespace sigma1
