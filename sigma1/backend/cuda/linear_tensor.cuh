// Tall products with a bias on tensor cores: cuBLASLt would round a bias of 16 bits before it is
// added. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/gemm.cuh"

namespace sigma1::cuda {

// Whether multiply_with_bias takes it: a bias, operands and result of 16 bits alike, nothing
// transposed, and rows that can be read 16 bytes at a time.
bool takes_bias(const Gemm& product);
// One rounding, of alpha · (A · B + bias).
void multiply_with_bias(const Gemm& product, cudaStream_t stream);

}  // namespace sigma1::cuda
