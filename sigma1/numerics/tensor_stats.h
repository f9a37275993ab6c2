// What a tensor's numbers are like, in one pass over them: moments, extremes, how many lie in each
// binade, and what a format would lose of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sigma1/numerics/float_format.h"

namespace sigma1 {

// Where a format's range ends, as magnitudes, for rounding to nearest even.
struct FormatLimits {
  float zero_up_to = 0;    // what is not larger is rounded to zero
  float normal_from = 0;   // what is smaller is subnormal
  float finite_up_to = 0;  // what is larger is rounded beyond the largest finite number

  static FormatLimits of(const FloatFormat& format);
  // Of numbers that are divided by `scale` before they are cast.
  FormatLimits times(float scale) const;
};

// How many numbers of a tensor fall outside of what a format holds well. Zeros are in none.
struct FormatLoss {
  int64_t to_zero = 0;    // become zero
  int64_t subnormal = 0;  // keep fewer digits; those that become zero are not counted again
  int64_t beyond = 0;     // too large, or not finite to begin with

  // Adds numbers of a part of the tensor.
  void add(std::span<const float> values, const FormatLimits& limits);
  void add(const FormatLoss& other);
};

struct TensorStats {
  int64_t count = 0, zeros = 0, nonfinite = 0;
  double sum = 0, sum_squares = 0;  // of the finite ones
  float abs_min = 0, abs_max = 0;   // of those that are finite and not zero; 0 when there are none
  // By fp32's exponent field: those in [2^(i−127), 2^(i−126)). The first has fp32's subnormals.
  std::array<int64_t, 255> binades{};

  double mean() const;
  double std_dev() const;
  double rms() const;

  // Adds numbers of a part of the tensor. Sums depend, in their last digits, on how it is cut.
  void add(std::span<const float> values);
  void add(const TensorStats& other);
};

// A tensor in a format.
struct TensorFindings {
  TensorStats stats;
  FormatLoss loss;
};

}  // namespace sigma1
