// Tensors of 8 bits in both orientations: Hopper's tensor cores take factors of 8 bits only where
// numbers that are multiplied with each other lie side by side, and forward, backward and weight
// gradients multiply along other axes. Private to this folder.
#pragma once

#include <algorithm>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/graph/graph.h"

namespace sigma1::cuda {

// A square of numbers that a block has in both orientations.
inline constexpr int kTurnSide = 64;

// Whether a product of 8-bit factors reads this input across the way it is stored.
bool reads_turned(const Graph& graph, int node, size_t input);

// Blocks for all squares. Those that run at the same time have neighbours both along and across.
inline dim3 turn_blocks(int64_t rows, int64_t width) {
  constexpr int64_t kMostBlocks = 1 << 15;
  auto parts = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
  int64_t down = parts(rows, kTurnSide), at_once = std::min(down, kMostBlocks);
  return dim3(static_cast<unsigned>(parts(width, kTurnSide)), static_cast<unsigned>(at_once),
              static_cast<unsigned>(parts(down, at_once)));
}

// Writes the other orientation of a tensor that is there in one.
void turn(const Buffer& buffer);

// The codes of four neighbours in each of four rows, as those of four columns.
__device__ inline void turn_words(uint32_t (&words)[4]) {
  uint32_t low = __byte_perm(words[0], words[1], 0x5140);
  uint32_t high = __byte_perm(words[0], words[1], 0x7362);
  uint32_t next_low = __byte_perm(words[2], words[3], 0x5140);
  uint32_t next_high = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low, next_low, 0x5410);
  words[1] = __byte_perm(low, next_low, 0x7632);
  words[2] = __byte_perm(high, next_high, 0x5410);
  words[3] = __byte_perm(high, next_high, 0x7632);
}

// A block's square of codes on its way from rows to columns, of a matrix whose rows and width are
// multiples of 16: each thread puts four neighbours of four rows, and after the block was
// synchronised takes 16 of a column.
struct TurnRoom {
  static constexpr unsigned kFours = kTurnSide / 4, kPieces = kTurnSide / 16;
  uint4 pieces[kTurnSide * kPieces];

  // Where the block's square begins, and in it what a thread puts.
  __device__ static int64_t first_row() {
    return (int64_t{blockIdx.z} * gridDim.y + blockIdx.y) * kTurnSide;
  }
  __device__ static int64_t first_column() { return int64_t{blockIdx.x} * kTurnSide; }
  __device__ static unsigned row() { return threadIdx.x / kFours * 4; }
  __device__ static unsigned column() { return threadIdx.x % kFours * 4; }

  __device__ void put(uint32_t (&words)[4]) {
    turn_words(words);
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
      uint4& piece = pieces[place(column() + k, row() / 16)];
      reinterpret_cast<uint32_t*>(&piece)[row() / 4 % 4] = words[k];
    }
  }
  __device__ void take(uint8_t* turned, int64_t rows, int64_t width) const {
    take(turned, rows, width, first_row(), first_column());
  }
  // The same of a square that begins there.
  __device__ void take(uint8_t* turned, int64_t rows, int64_t width, int64_t first_row,
                       int64_t first_column) const {
    unsigned column = threadIdx.x / kPieces, piece = threadIdx.x % kPieces;
    int64_t turned_row = first_column + column, turned_column = first_row + piece * 16;
    if (turned_row < width && turned_column < rows) {
      uint8_t* to = turned + turned_row * rows + turned_column;
      *reinterpret_cast<uint4*>(to) = pieces[place(column, piece)];
    }
  }

 private:
  // Such that the columns that a warp puts, and those that it takes, are in other banks: pieces of
  // a column and of its neighbour change places from column to column.
  __device__ static unsigned place(unsigned column, unsigned piece) {
    return (column ^ (column >> 4 & 1)) * kPieces + (piece ^ (column >> 2 & 3));
  }
};
static_assert(TurnRoom::kFours * TurnRoom::kFours == kThreads);

}  // namespace sigma1::cuda
