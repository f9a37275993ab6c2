// A row that a block's threads keep in registers, so that it is read once however often it is gone
// over. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/eight.cuh"

namespace sigma1::cuda {

inline constexpr int kHeld = 4;  // times eight numbers that a thread keeps
inline constexpr int64_t kMostHeld = 1024 * 8 * kHeld;

// Threads of a block that holds a row of n.
inline unsigned held_threads(int64_t n) {
  constexpr int64_t kOfWarp = 32 * 8 * kHeld;
  return static_cast<unsigned>((n + kOfWarp - 1) / kOfWarp * 32);
}

// The part of a row of n that a thread keeps; −∞ behind the end.
template <Type kType>
struct HeldPart {
  Eight of[kHeld];

  __device__ static int64_t column(int i) {
    return 8 * (int64_t{threadIdx.x} + int64_t{i} * blockDim.x);
  }

  __device__ HeldPart(const View& row, int64_t first, int64_t n) {
    EightCodes<kType> codes[kHeld] = {};
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (column(i) < n) codes[i] = EightCodes<kType>::at(row.data, first + column(i));
    }
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      of[i] = codes[i].numbers();
      if (column(i) < n) continue;
      for (float& each : of[i].at) each = -INFINITY;
    }
  }

  __device__ float most() const {
    float result = -INFINITY;
#pragma unroll
    for (const Eight& pack : of) {
#pragma unroll
      for (float each : pack.at) result = fmaxf(result, each);
    }
    return result;
  }

  // Their sum, after which they are kept.
  __device__ float exponentiate(float largest) {
    float sum = 0;
#pragma unroll
    for (Eight& pack : of) {
#pragma unroll
      for (float& each : pack.at) {
        each = expf(each - largest);
        sum += each;
      }
    }
    return sum;
  }
};

}  // namespace sigma1::cuda
