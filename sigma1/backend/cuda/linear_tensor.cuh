// Tall products with a bias on tensor cores: cuBLASLt would round a bias of 16 bits before it is
// added. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/gemm.cuh"

namespace sigma1::cuda {

// Products of a language model: cuBLASLt is more than twice as fast there, and half a rounding more
// of a bias is worth it.
inline bool is_large(const Gemm& product) {
  return product.m * product.n * product.k >= int64_t{1} << 32;
}
// Whether multiply_with_bias takes it: a bias, operands and result of 16 bits alike, nothing
// transposed, rows that can be read 16 bytes at a time, and not large.
bool takes_bias(const Gemm& product);
// One rounding, of alpha · (A · B + bias).
void multiply_with_bias(const Gemm& product, cudaStream_t stream);

}  // namespace sigma1::cuda
