// Pointwise steps of a cluster chain as lines of its source. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/cluster_inputs.cuh"

namespace sigma1::cuda {

// One for each of the step's instructions; the last makes `result`, from variables with the step's
// inputs.
std::vector<std::string> pointwise_lines(ChainStep step, const std::string& result,
                                         const std::vector<std::string>& variables,
                                         ClusterInputs& inputs);

}  // namespace sigma1::cuda
