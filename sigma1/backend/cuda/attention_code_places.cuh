// Where a warp's 16 rows of codes lie in its room of shared memory, and which of them each lane
// brings and takes, in either orientation. What is there to be checked without a GPU. Private to
// this folder.
#pragma once

#include <cuda_runtime.h>

namespace sigma1::cuda {

// Of 16 rows of up to 64 codes. Rows are 128 bytes apart, as rows of 16 bits are; the second eight
// have the half of a row that the first eight leave. Lanes that read or write at once are in
// different banks.
struct CodePlaces {
  static constexpr int kRows = 16, kPiece = 16, kRowBytes = 128;
  static constexpr int kWord = 4;  // columns of a word
  static constexpr int kHalf = kRows / 2;

  struct Place {
    int row, column;
  };

  __host__ __device__ static constexpr int at(Place code) {
    int piece = code.column / kPiece + code.row / kHalf * 4;
    return code.row * kRowBytes + (piece ^ code.row % kHalf) * kPiece + code.column % kPiece;
  }

  // The first of two neighbours that a lane has of tensor cores' results: pair n of 16.
  static constexpr int kPairs = 16;
  __host__ __device__ static constexpr Place pair(int lane, int n) {
    return {lane / 4 + n % 2 * kHalf, n / 2 * 8 + lane % 4 * 2};
  }

  // The first of 16 neighbours of a row that a lane takes, the nth time.
  static constexpr int kPieceTurns = 2;
  __host__ __device__ static constexpr Place piece(int lane, int n) {
    return {lane / 4 % 2 * kHalf + lane / 8 + n * 4, lane % 4 * kPiece};
  }

  // The first of four neighbours in each of eight rows that a lane takes, to turn them.
  __host__ __device__ static constexpr Place block(int lane) {
    return {lane % 2 * kHalf, lane / 2 * kWord};
  }

  // The first of two columns whose sums a lane has in the end.
  __host__ __device__ static constexpr int summed(int lane) { return 2 * lane; }
};

}  // namespace sigma1::cuda
