// What unit scaling costs in a training step of a configured model: the model's graphs are built,
// with and without it, and counted.
#pragma once

#include "sigma1/analysis/scaling_cost.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

// Of unit scaling by the config's scheme, whatever its method; bytes as its precision stores
// activations.
StepScalingCost step_scaling_cost(const TrainConfig& config);

}  // namespace sigma1
