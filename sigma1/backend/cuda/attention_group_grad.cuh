// The gradients of attention with relative positions by a group of blocks for each head of each
// sample: where they are for a launch. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_tile.cuh"

namespace sigma1::cuda {

// Of tensors that uses_tensor_cores(); not where there is no state for it.
bool uses_group_grad(const Launch& launch, const Attention& a);
void run_group_grad(const Launch& launch);

// Bytes of workspace and of state, none where it is not for these tensors.
int64_t group_grad_workspace(const Attention& a);
int64_t group_grad_state(const Attention& a);

}  // namespace sigma1::cuda
