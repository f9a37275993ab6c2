// Convolution over time in a cluster chain, and the gradient of what it reads: products whose terms
// are taps and channels of a group. See cluster_block.cuh for who includes this.
#pragma once

#include "sigma1/backend/cuda/cluster_steps.cuh"

namespace sigma1::cuda {

// Of output row t, the terms of a tap are the window's row t + tap.
template <int kGroup, int kStride>
struct WindowTerms {
  uint32_t row;
  __device__ void get(uint32_t (&to)[4], int term) const {
    load_matrix_x4(to, row + 2 * (term / kGroup * kStride + term % kGroup));
  }
};
// For a warp's columns, of groups of kGroupOut, from the window at kFrom, in groups of kGroupIn.
template <int kFrom, int kWidthIn, int kGroupIn, int kGroupOut, class Place>
__device__ auto window_terms(const Place& place) {
  const auto& block = place.block;
  constexpr int kStride = padded(slice_of(kWidthIn, Place::OfBlock::kRanks));
  int row = block.part * 16 + block.lane % 16;
  int column = place.in_slice() / kGroupOut * kGroupIn + block.lane / 16 * 8;
  return WindowTerms<kGroupIn, kStride>{block.shared + kFrom + 2 * (row * kStride + column)};
}

// Weights from w[taps, channels of a group of the result, channels of the factor], the last tap
// first.
template <int kTaps, int kGroupIn, int kGroupOut, int kStride>
struct TurnedTaps {
  static constexpr bool kTransposed = true;
  uint32_t first;

  __device__ uint32_t row(int term, int tile) const {
    int tap = kTaps - 1 - term / kGroupIn;
    return first + 2 * ((tap * kGroupOut + 8 * tile) * kStride + term % kGroupIn);
  }
};
template <int kFrom, int kStride, int kTaps, int kGroupIn, int kGroupOut, class Place>
__device__ auto turned_taps(const Place& place) {
  int lane = place.block.lane;
  int row = place.in_slice() % kGroupOut + lane / 16 * 8 + lane % 8;
  int column = place.in_slice() / kGroupOut * kGroupIn + lane / 8 % 2 * 8;
  return TurnedTaps<kTaps, kGroupIn, kGroupOut, kStride>{place.block.shared + kFrom +
                                                         2 * (row * kStride + column)};
}

}  // namespace sigma1::cuda
