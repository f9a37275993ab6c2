// How a warp's lanes share what attention by tensor cores computes: sizes, tiles of results, and
// rows in shared memory. See attention_mma.cuh. Private to this folder.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <concepts>

#include "sigma1/backend/cuda/attention_tile.cuh"
#include "sigma1/backend/cuda/mma.cuh"

namespace sigma1::cuda {

inline constexpr int kOwned = 16;  // rows that a block owns
inline constexpr int kWarps = kThreads / 32;

// Number is __half, __nv_bfloat16 or float.
template <class Number, int kNumbers>
struct MmaSize {
  using Element = Number;
  static constexpr bool kIsFp32 = std::same_as<Number, float>;
  using Code = std::conditional_t<kIsFp32, float, uint16_t>;  // of probabilities that are kept
  static constexpr int kBytes = sizeof(Number);
  static constexpr int kEach = 16 / kBytes;  // numbers that are copied at once
  static constexpr int kHead = kNumbers;     // numbers of a head at most; the rest is zeros
  // Of rows in shared memory: those that are read at once, all banks.
  static constexpr int kStride = kNumbers + kEach;
  static constexpr int kTiles = kNumbers / 8;  // of a row of results
  static constexpr int kBlocksOfSm = kNumbers <= 64 ? 2 : 1;

  static constexpr int floats(int numbers) { return numbers * kBytes / 4; }
};

template <class Size>
concept OfFp32 = Size::kIsFp32;
template <class Size>
concept Of16Bits = !Size::kIsFp32;

// 16 rows of 8 · kTiles columns, over the lanes of a warp.
template <int kTiles>
using Tiles = float[kTiles][4];

// Where a lane's number `n` of a tile lies in it.
__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int warp_of_block() { return static_cast<int>(threadIdx.x) / 32; }
__device__ inline int tile_row(int n) { return lane_of_warp() / 4 + n / 2 * 8; }
__device__ inline int tile_column(int n) { return lane_of_warp() % 4 * 2 + n % 2; }

__device__ inline int tile_pair() { return lane_of_warp() % 4; }

// Over the four lanes of a row; all of them have the result.
__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(~0U, value, 1);
  return value + __shfl_xor_sync(~0U, value, 2);
}
__device__ inline float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(~0U, value, 1));
  return fmaxf(value, __shfl_xor_sync(~0U, value, 2));
}

// Rows [first, first + rows) of one head from `start` on, zeros outside [0, limit); asynchronous,
// by the kCopiers threads of a block or a warp.
template <class Size, int kCopiers>
__device__ void copy_rows(const Attention& a, const View& from, int64_t start, int first, int rows,
                          int64_t limit, typename Size::Element* to) {
  using Element = typename Size::Element;
  constexpr int kEach = Size::kEach, kPieces = Size::kHead / kEach, kStep = kCopiers / kPieces;
  int copier = static_cast<int>(threadIdx.x) % kCopiers;
  int row = copier / kPieces, x = copier % kPieces * kEach;
  auto end = x < a.d ? static_cast<unsigned>(limit) : 0;
  const Element* source = static_cast<const Element*>(from.data) + start + x;
  source += (first + row) * a.width;
  uint32_t place = shared_address(to + row * Size::kStride + x);
#pragma unroll 1
  for (; row < rows; row += kStep, source += kStep * a.width) {
    bool inside = static_cast<unsigned>(first + row) < end;  // below zero is large
    copy_16_async(place, source, inside);
    place += kStep * Size::kStride * Size::kBytes;
  }
}

}  // namespace sigma1::cuda
