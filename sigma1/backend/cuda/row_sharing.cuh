// How two warps of a row chain share a product: each sums every other tile, and finishes half of
// the rows with what the other found for them. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_values.cuh"

namespace sigma1::cuda {

constexpr int kWarpColumns = 16;
static_assert(kWorkers / 64 * kWarpColumns == kTileColumns);

// The columns of a tile that a warp sums, and which of the two warps with these it is.
struct WarpPart {
  int warp = static_cast<int>(threadIdx.x) / 32;

  __device__ int pair() const { return warp % (kWorkers / 64); }
  __device__ int half() const { return warp / (kWorkers / 64); }
  __device__ int column() const { return pair() * kWarpColumns; }
};

// Of the lanes of a warp: what it gives to the other, eight rows for each 16 of the block.
template <int kRows>
struct Given {
  float at[kRows / 16][8][kWarpColumns];
};

// In turns one place is written while the other may still be read.
template <int kRows>
struct SharedSums {
  Given<kRows> at[2][kWorkers / 32];
};
static_assert(sizeof(SharedSums<16>) == sharing_bytes(16));
static_assert(sizeof(SharedSums<32>) == sharing_bytes(32));

template <int kRows>
class TileSharing {
 public:
  __device__ explicit TileSharing(SharedSums<kRows>& sums) : sums_(sums) {}

  __device__ WarpPart part() const { return part_; }

  __device__ void give(int m, int row, int column, float2 pair) {
    *reinterpret_cast<float2*>(&place(part_.warp).at[m][row][column]) = pair;
  }
  // Until the other warp has given as well.
  __device__ void meet() const { sync_warps<2>(part_.pair()); }

  __device__ Four taken(int m, int row, int column) const {
    const auto* from = &place(part_.warp ^ kWorkers / 64).at[m][row][column];
    auto four = *reinterpret_cast<const float4*>(from);
    return {four.x, four.y, four.z, four.w};
  }
  __device__ void part_ways() { turn_ ^= 1; }

 private:
  __device__ Given<kRows>& place(int warp) const { return sums_.at[turn_][warp]; }

  SharedSums<kRows>& sums_;
  WarpPart part_;
  int turn_ = 0;
};

}  // namespace sigma1::cuda
