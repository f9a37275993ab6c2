// Between a model as it was trained and the same function as everyone else writes it: no factors,
// residual layers that just add, logits divided by √d.
#pragma once

#include "sigma1/train/stored_model.h"

namespace sigma1 {

// The model that has nothing but its parameters.
TrainConfig plain_config(const TrainConfig& config);

// Its parameters, for the function that the stored model computes.
ParameterValues to_plain(const StoredModel& model);

// The parameters by which a model of this config computes what the plain one does.
ParameterValues from_plain(const TrainConfig& config, const Alignment& alignment,
                           const ParameterValues& plain);

}  // namespace sigma1
