// Combines a value of every thread of a warp or block, in a tree that their number alone decides.
#pragma once

namespace sigma1::cuda {

template <class T, class Combine>
__device__ T warp_fold(T value, Combine combine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFF, value, distance));
  }
  return value;
}

// All threads get the result; whole warps, and all of them, must come here.
template <class T, class Combine>
__device__ T block_fold(T value, Combine combine) {
  __shared__ T of_warp[32];
  value = warp_fold(value, combine);
  __syncthreads();  // what an earlier call left has been read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  T result = of_warp[0];
  for (int warp = 1; warp < static_cast<int>(blockDim.x) / 32; ++warp) {
    result = combine(result, of_warp[warp]);
  }
  return result;
}

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

}  // namespace sigma1::cuda
