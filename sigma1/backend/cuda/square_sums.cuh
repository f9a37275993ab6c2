// Sums of columns, by blocks that have a matrix in squares as TurnRoom does: each leaves the sums
// of its square's columns, and all of them are added up by add_parts. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/sixteen.cuh"
#include "sigma1/backend/cuda/turn.cuh"

namespace sigma1::cuda {

struct SquareSums {
  float of_warps[kThreads / 32][kTurnSide];

  // Every thread's four neighbours of four rows, zeros where there is nothing.
  __device__ void put(const Sixteen& numbers) {
    float4 sums;
    float* of_column = reinterpret_cast<float*>(&sums);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float sum = (numbers.at[k] + numbers.at[4 + k]) + (numbers.at[8 + k] + numbers.at[12 + k]);
      of_column[k] = sum + __shfl_xor_sync(~0U, sum, TurnRoom::kFours);
    }
    if (threadIdx.x % 32 >= TurnRoom::kFours) return;
    *reinterpret_cast<float4*>(&of_warps[threadIdx.x / 32][TurnRoom::column()]) = sums;
  }
  // After the block was synchronised: to partials[square down][column].
  __device__ void take(float* partials, int64_t width) const {
    int64_t column = TurnRoom::first_column() + threadIdx.x;
    if (threadIdx.x >= kTurnSide || column >= width) return;
    float sum = 0;
#pragma unroll
    for (const auto& of_warp : of_warps) sum += of_warp[threadIdx.x];
    partials[TurnRoom::first_row() / kTurnSide * width + column] = sum;
  }

  static int64_t parts(int64_t rows) { return (rows + kTurnSide - 1) / kTurnSide; }
};
static_assert(2 * TurnRoom::kFours == 32);

}  // namespace sigma1::cuda
