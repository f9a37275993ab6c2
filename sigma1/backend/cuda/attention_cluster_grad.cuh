// The gradients of attention with relative positions by a cluster of blocks for each head of each
// sample: where they are for a launch. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_tile.cuh"

namespace sigma1::cuda {

// Of tensors that uses_tensor_cores(); where the device was asked for it.
bool uses_cluster_grad(const Launch& launch, const Attention& a);
void run_cluster_grad(const Launch& launch);

}  // namespace sigma1::cuda
