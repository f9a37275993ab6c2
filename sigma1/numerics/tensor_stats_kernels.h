// The inner loops of tensor_stats.cpp, compiled once per instruction set: see convert_kernels.h for
// why nothing here may pull in library code.
#pragma once

#include <cstdint>

namespace sigma1::detail {

// Magnitudes are fp32's bits without the sign: they compare like the numbers.
struct NumberCounts {
  int64_t zeros, nonfinite;
  double sum, sum_squares;
  uint32_t smallest, largest;  // of the finite that are not zero; smallest > largest: none
};

struct LimitBits {
  uint32_t zero_up_to, normal_from, finite_up_to;
};

struct LossCounts {
  int64_t to_zero, subnormal, beyond;
};

struct TensorStatsKernels {
  NumberCounts (*count)(const float* values, int64_t n);
  LossCounts (*count_losses)(const float* values, int64_t n, LimitBits limits);
};

extern const TensorStatsKernels tensor_stats_kernels_baseline, tensor_stats_kernels_avx2,
    tensor_stats_kernels_avx512;

}  // namespace sigma1::detail
