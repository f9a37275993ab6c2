// The scales of a whole model's tensors: at its start, or wherever a session is.
#pragma once

#include "sigma1/train/scale_probe.h"
#include "sigma1/train/session.h"

namespace sigma1 {

// Copies what the probe reads from the session: parameters and the loss scale.
void copy_state(const Session& session, ScaleProbe& probe);

// Judged by the formats of `config`, which may differ from the session's own in those only.
std::vector<TensorScale> session_scales(const Session& session, const TrainConfig& config,
                                        const ModelBatch& batch, const ProbeOptions& options);

// Of a model that reads no text: weights as initialised, inputs normal, tokens random.
std::vector<TensorScale> layer_scales(const TrainConfig& config, const ProbeOptions& options);

}  // namespace sigma1
