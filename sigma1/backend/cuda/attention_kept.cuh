// Attention that keeps logarithms and its result for its gradient: what its kernels share. Private
// to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_tile.cuh"

namespace sigma1::cuda {

// What forward has kept: inputs of the gradient behind dy.
struct KeptInputs {
  View result, logs;
  float scale;  // 1 / what `result` was multiplied by

  explicit KeptInputs(const Launch& launch);
};

// The launch of attention_grad.
Launch without_kept(const Launch& launch);
// Whether such a launch, with what was kept beside it, is one of attention_tall_kept.cu.
bool is_tall_kept_grad(const Launch& launch);

void run_attention_kept(const Launch& launch);
void run_attention_kept_grad(const Launch& launch);
int64_t attention_kept_grad_workspace(const Launch& launch);

}  // namespace sigma1::cuda
