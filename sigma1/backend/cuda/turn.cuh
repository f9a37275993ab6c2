// Tensors of 8 bits in both orientations: Hopper's tensor cores take factors of 8 bits only where
// numbers that are multiplied with each other lie side by side, and forward, backward and weight
// gradients multiply along other axes. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/graph/graph.h"

namespace sigma1::cuda {

// A square of numbers that a block has in both orientations.
inline constexpr int kTurnSide = 64;

// Whether a product of 8-bit factors reads this input across the way it is stored.
bool reads_turned(const Graph& graph, int node, size_t input);

// Blocks for all squares.
inline dim3 turn_blocks(int64_t rows, int64_t width) {
  auto along = [](int64_t size) {
    return static_cast<unsigned>((size + kTurnSide - 1) / kTurnSide);
  };
  return dim3(along(rows), along(width));
}

// Writes the other orientation of a tensor that is there in one.
void turn(const Buffer& buffer);

// A square of codes on its way from rows to columns: rows are put, 16 numbers a thread, and after
// the block was synchronised columns are taken.
struct TurnRoom {
  static constexpr int kStride = kTurnSide + 4;  // columns of few rows share a bank
  static constexpr int kPieces = kTurnSide / 16;
  alignas(16) uint8_t codes[kTurnSide][kStride];

  // Of the piece that the thread has, of kThreads: a row and where in it its 16 numbers begin.
  __device__ static int row() { return static_cast<int>(threadIdx.x) / kPieces; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % kPieces * 16; }

  __device__ void put(uint4 piece) {
    auto* to = reinterpret_cast<uint32_t*>(&codes[row()][column()]);
    to[0] = piece.x, to[1] = piece.y, to[2] = piece.z, to[3] = piece.w;
  }
  // 16 numbers of a column, as a piece of a row of the turned square.
  __device__ uint4 take() const {
    uint32_t words[4];
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      words[word] = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        words[word] |= uint32_t{codes[column() + word * 4 + k][row()]} << 8 * k;
      }
    }
    return {words[0], words[1], words[2], words[3]};
  }
};
static_assert(kTurnSide * TurnRoom::kPieces == kThreads);

}  // namespace sigma1::cuda
