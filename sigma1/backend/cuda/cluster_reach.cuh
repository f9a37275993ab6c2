// Steps of a cluster chain that read other rows than the cluster computes, which therefore have to
// be in memory when the chain begins: attention, and convolution over time. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/cluster_inputs.cuh"

namespace sigma1::cuda {

// Whether clusters of this shape can compute such a step: each within a sample, each block whole
// heads or groups.
bool can_reach(const ChainStep& step, const ClusterShape& shape);

// An expression of the numbers that it computes by columns, before bias and factor.
std::string reach(const ChainStep& step, const ClusterShape& shape, ClusterInputs& inputs,
                  ClusterPhases& phases);

}  // namespace sigma1::cuda
