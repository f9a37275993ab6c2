// Matrix products through cuBLASLt, of any mixture of formats: fp32 in full fp32, 16 and 8 bits
// with sums in fp32. What cuBLASLt does not multiply is first written in a format that it does, and
// that loses nothing. Factors of 8 bits it takes in one orientation only, numbers that are
// multiplied with each other side by side; where they are not, they are turned or become 16 bits.
#pragma once

#include <optional>
#include <span>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/devices.h"

namespace sigma1::cuda {

// C[m, n] = alpha · (op(A)[m, k] · op(B)[k, n] + bias[n]), all row-major, `count` times. Scales
// found at run time are multiplied in.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;           // elements from one stored row to the next
  int64_t count = 1;                           // products of equal shape
  int64_t step_a = 0, step_b = 0, step_c = 0;  // elements from one product to the next
  float alpha = 1;
  View a{}, b{}, c{};  // their addresses multiples of 16
  // Where a factor of 8 bits is stored the other way round as well.
  const void *turned_a = nullptr, *turned_b = nullptr;
  bool is_faced = false;  // factors of 8 bits are as cuBLASLt takes them
  std::optional<View> bias{};
  ProductChoices choices{};

  // Of matrices without gaps; a step of 0 must be set where all products share a matrix.
  static Gemm packed(int64_t m, int64_t n, int64_t k, bool transpose_a = false,
                     bool transpose_b = false, int64_t count = 1);
};

// Asks for room by shapes, types and whether there are scales: addresses and alpha need not be set
// yet. It also finds the algorithm, so that a call of gemm only launches.
int64_t gemm_workspace(const Gemm& product);
// What the library's own part of it took when its algorithm was chosen.
double gemm_microseconds(const Gemm& product);
void gemm(const Gemm& product, cudaStream_t stream, std::span<std::byte> workspace);

}  // namespace sigma1::cuda
