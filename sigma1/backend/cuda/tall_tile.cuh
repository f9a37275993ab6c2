// Tiles of a matrix whose rows and width are multiples of 16, by blocks whose threads have eight
// neighbours of four rows each: rows of 16-bit numbers are read by lines of 128 bytes, and columns
// of 8-bit codes leave so. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/backend/cuda/turn.cuh"

namespace sigma1::cuda {

struct TallTile {
  static constexpr int kRows = 128, kColumns = 64;
  static_assert(kRows / 4 * (kColumns / 8) == kThreads);

  static int64_t down(int64_t rows) { return (rows + kRows - 1) / kRows; }
  static dim3 blocks(int64_t rows, int64_t width) {
    constexpr int64_t kMostBlocks = 1 << 15;
    int64_t at_once = std::min(down(rows), kMostBlocks);
    return dim3(static_cast<unsigned>((width + kColumns - 1) / kColumns),
                static_cast<unsigned>(at_once),
                static_cast<unsigned>((down(rows) + at_once - 1) / at_once));
  }

  // The block's, from the top.
  __device__ static int64_t place_down() { return int64_t{blockIdx.z} * gridDim.y + blockIdx.y; }
  __device__ static int64_t first_row() { return place_down() * kRows; }
  __device__ static int64_t first_column() { return int64_t{blockIdx.x} * kColumns; }
  // In it, what a thread has.
  __device__ static unsigned four() { return threadIdx.x / (kColumns / 8); }
  __device__ static unsigned column() { return threadIdx.x % (kColumns / 8) * 8; }
};

// A tile's codes of 8 bits on their way from rows to columns.
class TurnedTile {
 public:
  // A thread's, two words of each row.
  __device__ void put(const uint32_t (&codes)[4][2]) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      uint32_t words[4] = {codes[0][half], codes[1][half], codes[2][half], codes[3][half]};
      turn_words(words);
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        uint4& piece = piece_of(TallTile::column() + 4 * half + k, TallTile::four() / 4);
        reinterpret_cast<uint32_t*>(&piece)[TallTile::four() % 4] = words[k];
      }
    }
  }

  // After the block was synchronised: to turned[column][row].
  __device__ void take(uint8_t* turned, int64_t rows, int64_t width) {
    const unsigned place = threadIdx.x % kPieces;
    const int64_t row = TallTile::first_row() + place * 16;
    if (row >= rows) return;
#pragma unroll
    for (unsigned column = threadIdx.x / kPieces; column < TallTile::kColumns;
         column += kThreads / kPieces) {
      const int64_t turned_row = TallTile::first_column() + column;
      if (turned_row >= width) return;
      *reinterpret_cast<uint4*>(turned + turned_row * rows + row) = piece_of(column, place);
    }
  }

 private:
  static constexpr unsigned kPieces = TallTile::kRows / 16;  // of a column

  // Pieces change places by the eight columns that a thread has: a warp's words of one of them are
  // in different banks, and so are the pieces of a column.
  __device__ uint4& piece_of(unsigned column, unsigned place) {
    return pieces_[column][place ^ (column / 8 % kPieces)];
  }

  uint4 pieces_[TallTile::kColumns][kPieces];
};

// Sums of a tile's columns.
class TileColumnSums {
 public:
  // A thread's, of four rows, zeros where there is nothing.
  __device__ void put(const Eight& sums) {
    EightCodes<Type::fp32>::of(sums, false).write(of_fours_[TallTile::four()], TallTile::column());
  }

  // After the block was synchronised: to partials[tile down][column].
  __device__ void take(float* partials, int64_t width) const {
    const int64_t column = TallTile::first_column() + threadIdx.x;
    if (threadIdx.x >= TallTile::kColumns || column >= width) return;
    float sum = 0;
#pragma unroll 8
    for (const auto& of_four : of_fours_) sum += of_four[threadIdx.x];
    partials[TallTile::place_down() * width + column] = sum;
  }

 private:
  alignas(16) float of_fours_[TallTile::kRows / 4][TallTile::kColumns];
};

}  // namespace sigma1::cuda
