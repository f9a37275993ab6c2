// A thread of a cluster chain, and how blocks of a cluster reach each other. Included, as the files
// that include it, by sources that are compiled at run time alone, whose compiler knows no host
// library; see cluster_source.cuh.
#pragma once

#include "sigma1/backend/cuda/cluster_instructions.cuh"
#include "sigma1/backend/cuda/cluster_sizes.cuh"

namespace sigma1::cuda {

// A kernel's parameter.
template <int kPlaces, int kFactors>
struct ClusterParameters {
  std::byte* memory[kPlaces];
  long long rows;
  float factors[kFactors];
};

// Between, they wait for what concerns them alone: a barrier of the cluster would wait for all that
// threads have stored to memory, too. Each exchange has a barrier in every block, the first bytes
// of its shared memory, which is used once: it is told of each byte that comes, or by each block
// that it may read now.
__device__ inline PhaseBarrier* barrier_of(int exchange) {
  return reinterpret_cast<PhaseBarrier*>(shared_memory()) + exchange;
}
__device__ inline void expect(int exchange, int bytes) {
  start_barrier(barrier_of(exchange), 1);
  arrive_expecting(barrier_of(exchange), bytes);
}
__device__ inline void expect_blocks(int exchange, int blocks) {
  start_barrier(barrier_of(exchange), blocks);
}
__device__ inline void receive(int exchange) { wait_phase(barrier_of(exchange), 0); }

// A place in another block, and who there is told of what comes.
struct Address {
  uint32_t place, barrier;

  __device__ Address(uint32_t place_here, int exchange, int rank)
      : place(in_block(place_here, rank)),
        barrier(in_block(shared_address(barrier_of(exchange)), rank)) {}
};
// Lets another block read what all threads of this one wrote before they met.
__device__ inline void let_read(int exchange, int rank) {
  arrive_at_other(in_block(shared_address(barrier_of(exchange)), rank));
}

// A thread's part in the work of a cluster on kRowsOfCluster rows.
template <int kRowsOfCluster, int kBlocks, class ElementOf>
struct ClusterBlock {
  using Element = ElementOf;
  static constexpr int kRows = kRowsOfCluster, kRanks = kBlocks;
  static constexpr int kColumnWarps = column_warps(kBlocks), kParts = kRows / 16;
  static constexpr int kWarps = kParts * kColumnWarps, kThreads = 32 * kWarps;
  static constexpr int kOwnRows = kRows / kRanks;
  static_assert(kRows % 16 == 0 && kRows % kRanks == 0 && kOwnRows <= kWarps);

  int thread, warp, lane;
  int part, group;  // by columns: the warp's 16 rows, and its place among those that share columns
  int rank;         // of the block
  long long first_row;  // of the cluster
  int rows;             // of the cluster that exist
  uint32_t shared;

  __device__ explicit ClusterBlock(long long all_rows)
      : thread(static_cast<int>(threadIdx.x)),
        warp(thread / 32),
        lane(thread % 32),
        part(warp % kParts),
        group(warp / kParts),
        rank(static_cast<int>(blockIdx.x) % kRanks),
        first_row(static_cast<long long>(blockIdx.x / kRanks) * kRows) {
    long long left = all_rows - first_row;
    rows = static_cast<int>(left < kRows ? left : kRows);
    shared = shared_address(shared_memory());
  }

  // Of the cluster's first row in its sample.
  template <int kTime>
  __device__ int time() const {
    return static_cast<int>(first_row % kTime);
  }

  // By rows: of the block's rows; where there are more warps than rows, some have one for nothing.
  __device__ int own_row() const { return kOwnRows < kWarps && warp >= kOwnRows ? 0 : warp; }
  __device__ int row() const { return rank * kOwnRows + own_row(); }
  __device__ bool has_row() const { return kOwnRows == kWarps || warp < kOwnRows; }
};

}  // namespace sigma1::cuda
