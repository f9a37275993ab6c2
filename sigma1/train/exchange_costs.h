// What ranks send each other in a step of a configured run, counted without running it.
#pragma once

#include "sigma1/analysis/communication.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

// Of config.world ranks; none for one.
std::vector<CollectiveCost> exchange_costs(const TrainConfig& config);

}  // namespace sigma1
