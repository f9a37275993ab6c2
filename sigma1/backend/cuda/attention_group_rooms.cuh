// Where the blocks of attention_group_grad.cu have what they share, in global memory. Private to
// this folder.
#pragma once

#include "sigma1/backend/cuda/attention_lanes.cuh"
#include "sigma1/backend/cuda/block_signals.cuh"

namespace sigma1::cuda::group_grad {

inline constexpr int kMostTiles = 16;          // of a sequence
inline constexpr int kUnits = kMostTiles + 1;  // of a block

enum Columns { kOfKeys, kOfValues, kOfDistances, kKinds };

// What a block's columns are summed up from, once all blocks of its group have brought their part:
// transposed, as Block::slot says.
struct Parcel {
  uint4 pieces[kKinds][kUnits][32];
  float inverses[kMostTiles];  // powers of two that gradients of logits are to be multiplied by
};

// A group of blocks takes one head of one sample after another. All groups run at the same time, so
// that a block can wait for the others of its group.
struct GroupRooms {
  int groups, blocks;  // of a group
  Parcel* parcels;     // [2, groups, blocks]: a head's are read while the next one's are written
  float* by_sample;    // [batch, distances, width]
  int64_t bytes;       // of these
  Meeting* meetings;   // of groups, the only state
  int64_t state_bytes;

  // No groups where one would have more blocks than the GPU has at the same time.
  GroupRooms(const Attention& a, std::byte* workspace, std::byte* state);

  __device__ Parcel* parcels_of(int group, int turn) const {
    return parcels + (turn * groups + group) * blocks;
  }
};

}  // namespace sigma1::cuda::group_grad
