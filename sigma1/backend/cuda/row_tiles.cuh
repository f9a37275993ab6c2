// The weights of all products of a row chain as one sequence of tiles. One thread sends for them,
// as far ahead of the computation as a ring of tiles in shared memory has room, across the ends of
// products: while a norm runs, the next product's weights arrive. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_values.cuh"

namespace sigma1::cuda {

// A tile is two boxes of 64 rows of 128 bytes, as they lie in memory: the two halves of its
// columns. The groups of 16 bytes of a row are permuted by the row's number, so that eight rows are
// in different banks.
static_assert(kTileDepth == 64 && kTileColumns == 128);
constexpr int kBoxColumns = kTileColumns / 2, kBoxBytes = kTileBytes / 2;

// A kernel's parameter: the matrices of a chain's products, in their order. W[depth, width], or
// W[width, depth].
struct RowMatrices {
  CUtensorMap maps[kMostProducts];
  struct Size {
    int width, depth;
    bool transposed;
  } sizes[kMostProducts];
  int count;
};

// In shared memory.
template <int kStages>
struct TileRing {
  std::byte tiles[kStages][kTileBytes];
  PhaseBarrier arrived[kStages], used[kStages];

  // Before anything is sent for, by one thread; the block must be synchronised after.
  __device__ void start() {
    for (int i = 0; i < kStages; ++i) {
      start_barrier(&arrived[i], 1);
      start_barrier(&used[i], kWorkers / 64);
    }
    publish_barriers();
  }
};

// A place in a ring, and the phase of its barriers.
template <int kStages>
struct RingPlace {
  int index = 0, phase = 0;

  __device__ void move_on() {
    index = index + 1 == kStages ? 0 : index + 1;
    if (index == 0) phase ^= 1;
  }
};

// By one thread of a block.
template <int kStages>
__device__ void send_for_tiles(TileRing<kStages>& ring, const RowMatrices& matrices) {
  RingPlace<kStages> place;
  auto send_for = [&](int product, int column, int depth) {
    RowMatrices::Size size = matrices.sizes[product];
    int boxes = column + kBoxColumns < size.width ? 2 : 1;
    PhaseBarrier* arrived = &ring.arrived[place.index];
    wait_phase(&ring.used[place.index], place.phase ^ 1);
    arrive_expecting(arrived, boxes * kBoxBytes);
    for (int box = 0; box < boxes; ++box) {
      std::byte* to = ring.tiles[place.index] + box * kBoxBytes;
      int first = column + box * kBoxColumns;
      int x = size.transposed ? depth : first, y = size.transposed ? first : depth;
      copy_box(to, &matrices.maps[product], x, y, arrived);
    }
    place.move_on();
  };
  for (int product = 0; product < matrices.count; ++product) {
    RowMatrices::Size size = matrices.sizes[product];
    for (int column = 0; column < size.width; column += kTileColumns) {
      for (int depth = 0; depth < size.depth; depth += kTileDepth) send_for(product, column, depth);
    }
  }
}

// What a warp that computes sees of the ring: every other tile. As their stages are its half's
// alone, it sees each of their phases.
template <int kStages>
class TileStream {
 public:
  __device__ TileStream(TileRing<kStages>& ring, int half) : ring_(ring), half_(half) {}

  // Which of a sum's tiles is the first for this warp, 0 or 1.
  __device__ int first_tile() const { return half_ ^ passed_; }
  __device__ void end_sum(int tiles) { passed_ ^= tiles & 1; }

  // The next tile, in shared memory.
  __device__ uint32_t next() {
    wait_phase(&ring_.arrived[stage()], place_.phase);
    return shared_address(ring_.tiles[stage()]);
  }

  // The warp has used it.
  __device__ void release() {
    finish_before_copies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive_at(&ring_.used[stage()]);
    place_.move_on();
  }

 private:
  static_assert(kStages % 2 == 0);
  __device__ int stage() const { return 2 * place_.index + half_; }

  TileRing<kStages>& ring_;
  int half_, passed_ = 0;  // passed: tiles of earlier sums, modulo 2
  RingPlace<kStages / 2> place_;
};

}  // namespace sigma1::cuda
