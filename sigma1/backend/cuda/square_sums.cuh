// Sums of columns, by blocks that have a matrix in squares as TurnRoom does: each leaves the sums
// of its square's columns, and all of them are added up by add_parts. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/sixteen.cuh"
#include "sigma1/backend/cuda/turn.cuh"

namespace sigma1::cuda {

struct SquareSums {
  float of_warps[kThreads / 32][kTurnSide];

  // Every thread's sums of four rows of four neighbours, zeros where there is nothing.
  __device__ void put(const Four& sums) {
    Four both;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      both.at[k] = sums.at[k] + __shfl_xor_sync(~0U, sums.at[k], TurnRoom::kFours);
    }
    if (threadIdx.x % 32 >= TurnRoom::kFours) return;
    float* to = &of_warps[threadIdx.x / 32][TurnRoom::column()];
    *reinterpret_cast<float4*>(to) = {both.at[0], both.at[1], both.at[2], both.at[3]};
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

// A result [rows, width], both multiples of 16, that leaves in squares.
struct SquareTarget {
  int64_t rows, width;
  uint8_t* turned;  // where a result of 8 bits goes as [width, rows], or null
  float* partials;  // where sums of columns go, as SquareSums has them, or null

  explicit SquareTarget(const Buffer& out, float* sums = nullptr)
      : rows(out.count() / out.shape.back()),
        width(out.shape.back()),
        turned(reinterpret_cast<uint8_t*>(out.turned)),
        partials(sums) {}
};

}  // namespace sigma1::cuda
