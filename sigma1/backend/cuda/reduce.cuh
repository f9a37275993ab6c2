// Sums and maxima over the threads of a block, in an order that depends on the block's size alone.
// Private to this folder.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sigma1::cuda {

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Of blocks of one dimension whose size is a multiple of 32, at most 1024. Every thread of the
// block takes part, and every thread gets the result.
template <class T, class Combine>
__device__ T block_reduce(T value, Combine combine) {
  __shared__ T of_warps[32];
  constexpr unsigned kAll = 0xffffffff;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int step = 16; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(kAll, value, step));
  }
  __syncthreads();  // a call before this one may still be read
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  T result = of_warps[0];
  for (unsigned i = 1; i < warps; ++i) result = combine(result, of_warps[i]);
  return result;
}

__device__ inline float block_sum(float value) { return block_reduce(value, Plus()); }
__device__ inline double block_sum(double value) { return block_reduce(value, Plus()); }
__device__ inline int block_sum(int value) { return block_reduce(value, Plus()); }
__device__ inline float block_max(float value) { return block_reduce(value, Larger()); }

// Threads of a block that works on one row of n elements: a few elements each.
inline unsigned row_threads(int64_t n) {
  return static_cast<unsigned>(std::clamp<int64_t>((n + 127) / 128 * 32, 32, 1024));
}

}  // namespace sigma1::cuda
