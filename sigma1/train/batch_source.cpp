#include "sigma1/train/batch_source.h"

#include <numeric>

#include "sigma1/train/session.h"

namespace sigma1 {

ModelBatch::ModelBatch(const Batch& windows)
    : indices{{"tokens", {windows.tokens.begin(), windows.tokens.end()}}},
      numbers{{"mask", windows.mask}} {
  double counted = std::accumulate(windows.mask.begin(), windows.mask.end(), 0.0);
  loss_weight = static_cast<double>(windows.mask.size()) / counted;
}

void write_batch(Store& store, const ModelBatch& batch) {
  for (const auto& [name, values] : batch.indices) store.write_indices(name, values);
  for (const auto& [name, values] : batch.numbers) store.write(name, values);
}

ModelBatch step_batch(const TrainConfig& config, const Corpus& corpus, int64_t step, int64_t part) {
  int64_t index = step * config.parts() + part;
  if (corpus.source) return corpus.source->training(config, index);
  return training_batch(corpus.train, config.size.batch, static_cast<uint64_t>(config.seed),
                        static_cast<uint64_t>(index), {config.size.time, config.context});
}

}  // namespace sigma1
