// The way of a swapped product's sums from the lanes to which tensor cores give them, columns of
// the product by lanes, to four neighbours of a row for each. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_sharing.cuh"

namespace sigma1::cuda {

// Of a warp's 16 columns and the block's 16 rows: lane (g, t) of mma.cuh has columns g and g + 8 of
// rows 2t and 2t + 1, and the same of rows 8 more.
using SwappedSums = float[2][4];

struct SwappedPlaces {
  float at[2][kWorkers / 32][kWarpColumns * kSwappedRows];
};
static_assert(sizeof(SwappedPlaces) == kSwappedSumsBytes);

class SwappedSharing {
 public:
  __device__ explicit SwappedSharing(SwappedPlaces& places) : places_(places) {}

  __device__ WarpPart part() const { return part_; }

  // A row of eight, and four columns of the warp's, which are the lane's after. Four lanes have 32
  // bytes of a row; 16 have rows of one parity, which lie in different banks.
  static __device__ int row() {
    int lane = static_cast<int>(threadIdx.x) % 32;
    return lane / 4 % 4 * 2 + lane / 16;
  }
  static __device__ int column() { return static_cast<int>(threadIdx.x) % 4 * 4; }

  // For the warp itself.
  __device__ void keep(const SwappedSums& sums) {
    write(sums);
    __syncwarp();
  }
  // For the two warps that share columns. In turns one place is written while the other warp may
  // still read what it was given before.
  __device__ void exchange(const SwappedSums& sums) {
    write(sums);
    sync_warps<2>(part_.pair());
    turn_ ^= 1;
  }

  // Of the lane's row of the first eight or the others.
  __device__ Four kept(int eight) const { return four(turn_, part_.warp, eight); }
  __device__ Four exchanged(int eight) const {
    Four a = four(turn_ ^ 1, part_.pair(), eight);
    Four b = four(turn_ ^ 1, part_.pair() + kWorkers / 64, eight);
    return {a.at[0] + b.at[0], a.at[1] + b.at[1], a.at[2] + b.at[2], a.at[3] + b.at[3]};
  }

 private:
  // Lanes that write columns of rows 2t, and eight that read fours of rows r and r + 2, go to
  // different banks.
  static __device__ int place(int row, int column) {
    int line = row % 2 + row / 4 * 2, group = row / 2 % 2 * 4 + column / 4;
    return line * 32 + (group ^ row / 4 % 2 * 2) * 4 + column % 4;
  }

  __device__ void write(const SwappedSums& sums) {
    int lane = static_cast<int>(threadIdx.x) % 32;
    float* to = places_.at[turn_][part_.warp];
    __syncwarp();  // all lanes have read what they kept before
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      int row = i / 4 * 8 + lane % 4 * 2 + i % 2, column = lane / 4 + i / 2 % 2 * 8;
      to[place(row, column)] = sums[i / 4][i % 4];
    }
  }

  __device__ Four four(int turn, int warp, int eight) const {
    const float* from = &places_.at[turn][warp][place(eight * 8 + row(), column())];
    auto found = *reinterpret_cast<const float4*>(from);
    return {found.x, found.y, found.z, found.w};
  }

  SwappedPlaces& places_;
  WarpPart part_;
  int turn_ = 0;
};

}  // namespace sigma1::cuda
