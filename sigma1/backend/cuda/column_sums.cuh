// Sums of columns by a block: lanes have neighbouring columns, half warps have rows; what they
// found is added up in their order, through shared memory, and what several blocks found by the
// last of them to be done. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/eight.cuh"

namespace sigma1::cuda {

inline constexpr int kSumColumns = 128;  // of a half warp, eight of each lane
inline constexpr int kMostSumWarps = kThreads / 32;

struct ColumnThread {
  int lane, half, halves;  // of its half warp; which that is, of how many

  __device__ ColumnThread()
      : lane(static_cast<int>(threadIdx.x) % 16),
        half(static_cast<int>(threadIdx.x) / 16),
        halves(static_cast<int>(blockDim.x) / 16) {}
};

// Of blocks of kCount · kSumColumns threads at least, all of which must come here: the sums over
// half warps of kCount times kSumColumns columns go to of_block.
template <int kCount>
__device__ void add_warps(const Eight (&of_thread)[kCount], float* of_block) {
  constexpr int kColumns = kCount * kSumColumns;
  __shared__ float of_warps[kMostSumWarps][kColumns];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  __syncthreads();  // what an earlier call left has been read
#pragma unroll
  for (int i = 0; i < 8 * kCount; ++i) {
    float value = of_thread[i / 8].at[i % 8];
    value += __shfl_xor_sync(0xFFFFFFFF, value, 16);
    if (lane < 16) of_warps[warp][i / 8 * kSumColumns + 8 * lane + i % 8] = value;
  }
  __syncthreads();
  if (threadIdx.x >= kColumns) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kMostSumWarps; ++i) {
    if (i < warps) sum += of_warps[i][threadIdx.x];
  }
  of_block[threadIdx.x] = sum;
}

// Whether this block is the last of several that wrote partial sums, which it may read then: `done`
// counts them and is 0 again afterwards. All threads must come here.
__device__ inline bool is_last(unsigned* done, int parts) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // what the block wrote is there before it counts
    last = atomicInc(done, static_cast<unsigned>(parts) - 1) + 1 == static_cast<unsigned>(parts);
    __threadfence();
  }
  __syncthreads();
  return last;
}

// partials[part][i], summed over the parts.
__device__ inline float sum_of_parts(const float* partials, int parts, int width, int i) {
  constexpr int kAtOnce = 16;
  float sum = 0;
  for (int first = 0; first < parts; first += kAtOnce) {
    float next[kAtOnce];
#pragma unroll
    for (int part = 0; part < kAtOnce; ++part) {
      next[part] = first + part < parts ? __ldcg(partials + (first + part) * width + i) : 0;
    }
#pragma unroll
    for (int part = 0; part < kAtOnce; ++part) sum += next[part];
  }
  return sum;
}

}  // namespace sigma1::cuda
