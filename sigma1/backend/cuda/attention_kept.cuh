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

// What is wanted of gradients besides, where they are parts of the rows of one tensor of E5M2.
struct KeptCodes {
  uint8_t* turned;  // the tensor as [width, rows], or null
  float* sums;      // kept_sum_parts() rows that add up to the sums of its columns, or null
};
// Whether a launch of attention_kept_grad whose outputs are such parts gives them.
bool gives_codes(const Launch& launch);
int64_t kept_sum_parts(const Launch& launch);
void run_attention_kept_codes(const Launch& launch, const KeptCodes& codes);

void run_attention_kept(const Launch& launch);
void run_attention_kept_grad(const Launch& launch);
int64_t attention_kept_grad_workspace(const Launch& launch);

}  // namespace sigma1::cuda
