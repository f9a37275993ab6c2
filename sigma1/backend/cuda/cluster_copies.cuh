// What a block of a cluster chain sends for from memory. See cluster_block.cuh for who includes
// this.
#pragma once

#include "sigma1/backend/cuda/cluster_block.cuh"

namespace sigma1::cuda {

// Sends for kRows rows of kPieces times 16 bytes, kPitch bytes apart; zeros where there are fewer,
// or none before the row `begin`, unless all exist. What changes from one of a thread's rows to the
// next is known when this is compiled.
template <class Block, int kRows, int kPieces, int kStride, int kPitch, bool kAllExist>
__device__ void copy_in(const Block& block, int to, const std::byte* from, int rows, int pieces,
                        int begin = 0) {
  constexpr int kRowsAtOnce = Block::kThreads / kPieces, kIdle = Block::kThreads % kPieces;
  static_assert(kRowsAtOnce > 0);
  int row = block.thread / kPieces, piece = block.thread % kPieces;
  if (kIdle > 0 && row >= kRowsAtOnce) return;
  uint32_t place = block.shared + to + 2 * row * kStride + 16 * piece;
  from += static_cast<long long>(row) * kPitch + 16 * piece;
#pragma unroll
  for (int first = 0; first < kRows; first += kRowsAtOnce) {
    if (first + kRowsAtOnce > kRows && row + first >= kRows) break;
    bool exists = kAllExist || (begin <= row + first && row + first < rows && piece < pieces);
    copy_16_async(place + 2 * first * kStride, from + static_cast<long long>(first) * kPitch,
                  exists);
  }
}

// Of a tensor: the rows of the block, all rows of the cluster, or the block's columns of them.
template <class Block, int kWidth, int kTo>
__device__ void copy_own_rows(const Block& block, const std::byte* from) {
  long long first = block.first_row + block.rank * Block::kOwnRows;
  copy_in<Block, Block::kOwnRows, kWidth / 8, kWidth, 2 * kWidth, false>(
      block, kTo, from + first * 2 * kWidth, block.rows - block.rank * Block::kOwnRows, kWidth / 8);
}
template <class Block, int kWidth, int kTo>
__device__ void copy_all_rows(const Block& block, const std::byte* from) {
  copy_in<Block, Block::kRows, kWidth / 8, padded(kWidth), 2 * kWidth, false>(
      block, kTo, from + block.first_row * 2 * kWidth, block.rows, kWidth / 8);
}
template <class Block, int kWidth, int kTo>
__device__ void copy_columns(const Block& block, const std::byte* from) {
  constexpr int kSlice = slice_of(kWidth, Block::kRanks);
  int first = block.rank * kSlice;
  copy_in<Block, Block::kRows, kSlice / 8, padded(kSlice), 2 * kWidth, false>(
      block, kTo, from + block.first_row * 2 * kWidth + 2 * first, block.rows,
      (kWidth - first) / 8);
}

// The block's columns of other rows than the cluster's, all of whose rows are of one sample, of
// kTime: from kBefore rows before the first to kAfter behind the last.
template <class Block, int kWidth, int kTime, int kBefore, int kAfter, int kTo>
__device__ void copy_window(const Block& block, const std::byte* from) {
  constexpr int kSlice = slice_of(kWidth, Block::kRanks);
  constexpr int kRows = kBefore + Block::kRows + kAfter;
  int time = block.template time<kTime>();
  copy_in<Block, kRows, kSlice / 8, padded(kSlice), 2 * kWidth, false>(
      block, kTo, from + (block.first_row - kBefore) * 2 * kWidth + 2 * block.rank * kSlice,
      kTime - time + kBefore, kSlice / 8, kBefore - time);
}
// The whole sample, or, where it is causal, up to the cluster's last row; of a tensor that all
// samples share, as many rows of that.
template <class Block, int kWidth, int kTime, bool kCausal, bool kShared, int kTo>
__device__ void copy_sample(const Block& block, const std::byte* from) {
  constexpr int kSlice = slice_of(kWidth, Block::kRanks);
  int time = block.template time<kTime>();
  long long first = kShared ? 0 : block.first_row - time;
  copy_in<Block, kTime, kSlice / 8, padded(kSlice), 2 * kWidth, false>(
      block, kTo, from + first * 2 * kWidth + 2 * block.rank * kSlice,
      kCausal ? time + Block::kRows : kTime, kSlice / 8);
}

// A slice of the rows of a matrix, or of its columns.
template <class Block, int kHeight, int kWidth, int kTo>
__device__ void copy_matrix_rows(const Block& block, const std::byte* from) {
  constexpr int kSlice = slice_of(kHeight, Block::kRanks);
  int first = block.rank * kSlice;
  copy_in<Block, kSlice, kWidth / 8, padded(kWidth), 2 * kWidth, kSlice * Block::kRanks == kHeight>(
      block, kTo, from + static_cast<long long>(first) * 2 * kWidth, kHeight - first, kWidth / 8);
}
template <class Block, int kHeight, int kWidth, int kTo>
__device__ void copy_matrix_columns(const Block& block, const std::byte* from) {
  constexpr int kSlice = slice_of(kWidth, Block::kRanks);
  int first = block.rank * kSlice;
  copy_in<Block, kHeight, kSlice / 8, padded(kSlice), 2 * kWidth, kSlice * Block::kRanks == kWidth>(
      block, kTo, from + 2 * first, kHeight, (kWidth - first) / 8);
}
template <class Block, int kBytes, int kTo>
__device__ void copy_vector(const Block& block, const std::byte* from) {
  constexpr int kPieces = kBytes / 16;
#pragma unroll
  for (int first = 0; first < kPieces; first += Block::kThreads) {
    int piece = first + block.thread;
    if (piece < kPieces) copy_16_async(block.shared + kTo + 16 * piece, from + 16 * piece);
  }
}

}  // namespace sigma1::cuda
