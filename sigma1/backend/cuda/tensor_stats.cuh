// What a tensor's numbers are like, found where they lie: a probe looks at every tensor of a step,
// and copying all of them takes a hundred times as long as the step. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/numerics/tensor_stats.h"

namespace sigma1::cuda {

// Counts and extremes as on a CPU; sums in double, in an order that the count alone decides.
TensorStats stats_of(const Buffer& buffer);
FormatLoss loss_of(const Buffer& buffer, const FormatLimits& limits);

}  // namespace sigma1::cuda
