// The weights of all products of a row chain as one sequence of tiles, for the swapped form: like
// row_tiles.cuh, but wide products go by two tiles of columns at once, one for each half of the
// warps, and the blocks of a cluster, kCluster of them, are sent the same tiles at the same time:
// each sends for a part of every tile, and all get it. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/cluster.cuh"
#include "sigma1/backend/cuda/row_tiles.cuh"

namespace sigma1::cuda {

// In shared memory. A tile is two boxes, panels of wgmma.cuh, whose rows are terms of a sum, or
// columns where the weights are transposed.
struct SwappedRing {
  std::byte tiles[kSwappedStages][kTileBytes];
  PhaseBarrier arrived[kSwappedStages], used[kSwappedStages];
  PhaseBarrier free[kSwappedStages];  // used by all blocks of the cluster

  // Before anything is sent for, by one thread; the blocks must be synchronised after.
  __device__ void start(int cluster) {
    for (int i = 0; i < kSwappedStages; ++i) {
      start_barrier(&arrived[i], 1);
      start_barrier(&used[i], kWorkers / 64);
      start_barrier(&free[i], cluster);
    }
    publish_barriers();
  }
};

// Tiles in their order, as product, first column, first term. The halves of the warps take turns:
// each has a tile of columns for itself where there are two, else every other tile of the sum.
template <class Body>
__device__ void for_tiles(const RowMatrices& matrices, Body body) {
  for (int product = 0; product < matrices.count; ++product) {
    RowMatrices::Size size = matrices.sizes[product];
    for (int column = 0; column < size.width; column += 2 * kTileColumns) {
      int end = min(size.width, column + 2 * kTileColumns);
      for (int depth = 0; depth < size.depth; depth += kTileDepth) {
        for (int first = column; first < end; first += kTileColumns) body(product, first, depth);
      }
    }
  }
}

// By one thread of a block. Of each box it sends for as many rows as the others of the cluster.
template <int kCluster>
__device__ void send_for_tiles(SwappedRing& ring, const RowMatrices& matrices) {
  constexpr int kRows = kSwappedBox / kCluster;
  int first_row = kCluster > 1 ? place_in_cluster() * kRows : 0;
  RingPlace<kSwappedStages> place;
  for_tiles(matrices, [&](int product, int column, int depth) {
    RowMatrices::Size size = matrices.sizes[product];
    int boxes = column + kBoxColumns < size.width ? 2 : 1;
    PhaseBarrier* arrived = &ring.arrived[place.index];
    if constexpr (kCluster > 1) {
      wait_phase_of_cluster(&ring.free[place.index], place.phase ^ 1);
    } else {
      wait_phase(&ring.used[place.index], place.phase ^ 1);
    }
    arrive_expecting(arrived, boxes * kBoxBytes);
    for (int box = 0; box < boxes; ++box) {
      std::byte* to = ring.tiles[place.index] + box * kBoxBytes + first_row * 128;
      int first = column + box * kBoxColumns;
      int x = size.transposed ? depth : first, y = first_row + (size.transposed ? first : depth);
      const CUtensorMap* map = &matrices.maps[product];
      if constexpr (kCluster > 1) {
        copy_box_to_cluster(to, map, x, y, arrived, kCluster);
      } else {
        copy_box(to, map, x, y, arrived);
      }
    }
    place.move_on();
  });
}

// By a warp of its own, which tells all blocks of the cluster what this one has used: warps that
// compute have stores under way, which an arrival at another block would wait for. Nobody waits for
// the last tiles, and no block may be told anything once it has ended.
template <int kCluster>
__device__ void tell_used(SwappedRing& ring, const RowMatrices& matrices) {
  int lane = static_cast<int>(threadIdx.x) % 32, tiles = 0;
  for_tiles(matrices, [&](int, int, int) { ++tiles; });
  RingPlace<kSwappedStages> place;
#pragma unroll 1
  for (int i = 0; i + kSwappedStages < tiles; ++i) {
    wait_phase(&ring.used[place.index], place.phase);
    __syncwarp();  // or a lane might still wait for this phase when two more have passed
    if (lane < kCluster) arrive_at(&ring.free[place.index], lane);
    place.move_on();
  }
}

// What a warp that computes sees of the ring: every other tile, whose stages are its half's alone.
class SwappedStream {
 public:
  __device__ SwappedStream(SwappedRing& ring, int half) : ring_(ring), half_(half) {}

  // Which of two tiles that follow is this warp's, 0 or 1.
  __device__ int turn() const { return half_ ^ passed_; }
  // So many tiles have passed for both halves.
  __device__ void pass(int tiles) { passed_ ^= tiles & 1; }

  // The next tile, in shared memory.
  __device__ uint32_t next() {
    int stage = 2 * place_.index + half_;
    wait_phase(&ring_.arrived[stage], place_.phase);
    place_.move_on();
    return shared_address(ring_.tiles[stage]);
  }

  // The warp has used the oldest that it has not released.
  __device__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive_at(&ring_.used[2 * oldest_.index + half_]);
    oldest_.move_on();
  }

 private:
  static_assert(kSwappedStages % 2 == 0);

  SwappedRing& ring_;
  int half_, passed_ = 0;  // passed: modulo 2
  RingPlace<kSwappedStages / 2> place_, oldest_;
};

}  // namespace sigma1::cuda
