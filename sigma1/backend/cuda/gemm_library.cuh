// cuBLASLt as gemm uses it: a product's descriptors and algorithm are found once and kept. Private
// to this folder.
#pragma once

#include <cublasLt.h>

#include "sigma1/backend/cuda/gemm.cuh"

namespace sigma1::cuda::library {

// All that an algorithm depends on.
struct Product {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  int64_t lda, ldb, ldc;
  int64_t count, step_a, step_b, step_c;
  // Both factors fp32, fp16 or bf16, the result of their type or fp32; or factors of 8 bits, not
  // both e5m2, A not transposed, B transposed.
  Type a, b, result;
  bool alpha_on_device;  // then alpha points to alpha and 0
  bool has_bias;         // of the result's type, added after alpha
  bool tf32;
  bool fast_sums;  // of 8 bits: partial sums have fewer digits than fp32

  auto operator<=>(const Product&) const = default;
};

struct Algorithm {
  cublasLtMatmulAlgo_t choice{};
  size_t workspace = 0;     // bytes
  double microseconds = 0;  // when it was chosen
};

// How it is computed; lives as long as the process.
struct Recipe {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  Algorithm algorithm{};
  bool alpha_on_device = false;
};

// Of the current device. Null where cuBLASLt has no algorithm for it.
const Recipe* find_recipe(const Product& product);

inline constexpr int64_t kWorkspaceAlignment = 256;

// C = alpha · op(A) · op(B) + bias, which is null where there is none. `workspace` on a multiple of
// kWorkspaceAlignment.
void multiply(const Recipe& recipe, const float* alpha, const void* a, const void* b,
              const void* bias, void* c, void* workspace, cudaStream_t stream);

}  // namespace sigma1::cuda::library
