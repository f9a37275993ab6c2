#include "sigma1/train/model_scales.h"

#include "sigma1/graph/sources.h"
#include "sigma1/passes/differentiate.h"

namespace sigma1 {

void copy_state(const Session& session, ScaleProbe& probe) {
  session.copy_parameters(probe.graph(), probe.store());
  std::string seed(kGradientSeed);
  if (probe.store().contains(seed)) {
    probe.store().fill(seed, static_cast<float>(session.loss_scaler().scale));
  }
}

std::vector<TensorScale> session_scales(const Session& session, const TrainConfig& config,
                                        const ModelBatch& batch, const ProbeOptions& options) {
  ScaleProbe probe(config, session.alignment(), options);
  copy_state(session, probe);
  write_batch(probe.store(), batch);
  return probe.measure();
}

std::vector<TensorScale> layer_scales(const TrainConfig& config, const ProbeOptions& options) {
  ScaleProbe probe(config, {}, options);
  auto seed = static_cast<uint64_t>(config.seed);
  initialise_parameters(probe.store(), probe.graph(), seed);
  for (const Node& node : probe.graph().nodes()) {
    if (node.op != &input_op) continue;
    if (node.name == kGradientSeed) {
      probe.store().fill(node.name, static_cast<float>(LossScaler{}.scale));
      continue;
    }
    RandomStream random(seed, node.name);
    auto count = static_cast<size_t>(node.outputs.front().count());
    if (node.outputs.front().kind == Kind::index) {
      std::vector<uint16_t> tokens = random_tokens(config.size.vocabulary, count, random);
      probe.store().write_indices(node.name, std::vector<int32_t>(tokens.begin(), tokens.end()));
      continue;
    }
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.normal(i));
    probe.store().write(node.name, values);
  }
  return probe.measure();
}

}  // namespace sigma1
