// What tensors' numbers are like, found where they lie: a probe looks at every tensor of a step,
// and copying all of them takes a hundred times as long as the step. Private to this folder.
#pragma once

#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// Counts and extremes as on a CPU; sums in double, in an order that the count alone decides.
std::unique_ptr<TensorMeter> make_meter(const Device& device);

}  // namespace sigma1::cuda
