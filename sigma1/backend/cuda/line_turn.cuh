// Codes of 8 bits that a line chain writes in both orientations: a block's rows meet in shared
// memory, and leave it as columns. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/line_plan.cuh"

namespace sigma1::cuda {

// Words of a row that a team's threads have in so many packs of eight codes.
template <class Team, int kPacks>
inline constexpr int kTurnStride = 2 * kPacks* Team::kThreads;

// Where a block's row begins, in words, and where all of them end. The second 16 are half of all
// banks further, so that threads of both halves read from different ones.
__host__ __device__ constexpr int turn_place(int row, int stride) {
  return row * stride + row / 16 * 16;
}

template <int kStride>
inline constexpr size_t kTurnBytes = sizeof(uint32_t) * turn_place(kTurnedLines, kStride);

// Eight codes of a row.
__device__ inline void put_for_turn(uint32_t* row, int column, uint32_t low, uint32_t high) {
  *reinterpret_cast<uint2*>(row + column / 4) = {low, high};
}

// Four words, of one row each, become those of their four columns.
__device__ inline void turn_words(uint32_t (&words)[4]) {
  const uint32_t upper_left = __byte_perm(words[0], words[1], 0x5140);
  const uint32_t lower_left = __byte_perm(words[2], words[3], 0x5140);
  const uint32_t upper_right = __byte_perm(words[0], words[1], 0x7362);
  const uint32_t lower_right = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(upper_left, lower_left, 0x5410);
  words[1] = __byte_perm(upper_left, lower_left, 0x7632);
  words[2] = __byte_perm(upper_right, lower_right, 0x5410);
  words[3] = __byte_perm(upper_right, lower_right, 0x7632);
}

// Of the block's rows, which begin at `first`. A thread has 16 rows of four columns, its neighbour
// the next 16: together they fill sectors. The rows that are there are a multiple of 16.
template <int kThreadsOfBlock, int kStride>
__device__ void write_turned(const LineCode& code, const uint32_t* room, int64_t first) {
  static_assert(kTurnedLines == 32 && kStride % 2 == 0);
  const int half = static_cast<int>(threadIdx.x) % 2 * 16;
  if (first + half >= code.rows) return;
  room += turn_place(half, kStride);
#pragma unroll 1
  for (int word = static_cast<int>(threadIdx.x) / 2; word < code.width / 4;
       word += kThreadsOfBlock / 2) {
    uint32_t columns[4][4];
#pragma unroll
    for (int four = 0; four < 4; ++four) {
      uint32_t words[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        words[k] = room[(four * 4 + k) * kStride + word];
      }
      turn_words(words);
#pragma unroll
      for (int k = 0; k < 4; ++k) columns[k][four] = words[k];
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      uint8_t* to = code.turned + (4 * word + k) * code.rows + first + half;
      *reinterpret_cast<uint4*>(to) = {columns[k][0], columns[k][1], columns[k][2], columns[k][3]};
    }
  }
}

}  // namespace sigma1::cuda
