// The second half of sums that many blocks share: each has left what it found in the workspace, and
// all of that is added up in an order that sizes alone decide. Private to this folder.
#pragma once

#include <span>

#include "sigma1/backend/cuda/four.cuh"

namespace sigma1::cuda {

// out[i] = factor · Σ partials[part · stride + i] over the parts, for i below n.
struct PartialSums {
  const float* partials;
  int64_t parts, stride, n;
  Output out;
  float factor;
};

inline constexpr size_t kMostPartialSums = 3;

// Up to kMostPartialSums, with as many parts and numbers, in one launch.
void add_parts(std::span<const PartialSums> sums);

}  // namespace sigma1::cuda
