// What blocks of a cluster, which run at the same time and see each other's shared memory, tell and
// send each other. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/tma.cuh"

namespace sigma1::cuda {

// Of this block, from 0.
__device__ inline int place_in_cluster() {
  int place;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(place));
  return place;
}

// All threads of all blocks, in two halves; a thread must have waited before it arrives again. What
// threads write is not ordered by it, but for barriers that were published.
__device__ inline void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ inline void wait_for_cluster() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

// Arrives at the barrier that lies in another block where this one has `barrier`.
__device__ inline void arrive_at(PhaseBarrier* barrier, int block) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(block)
      : "memory");
}

// wait_phase for a barrier at which other blocks arrive.
__device__ inline void wait_phase_of_cluster(PhaseBarrier* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// copy_box to the first `blocks` blocks of the cluster: to the same place in each, whose own
// barrier is told.
__device__ inline void copy_box_to_cluster(void* to, const CUtensorMap* matrix, int x, int y,
                                           PhaseBarrier* barrier, int blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
      "l"(matrix), "r"(x), "r"(y), "r"(shared_address(barrier)),
      "h"(static_cast<uint16_t>((1 << blocks) - 1))
      : "memory");
}

}  // namespace sigma1::cuda
