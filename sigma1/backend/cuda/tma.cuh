// Boxes of a matrix copied into shared memory, and the barriers that tell when they have arrived
// and when they have been used. Private to this folder.
#pragma once

#include <cuda.h>

#include "sigma1/backend/cuda/mma.cuh"

namespace sigma1::cuda {

// The block's dynamic shared memory. Boxes are permuted by the bits of their addresses: it begins
// where those are zeros.
__device__ inline std::byte* shared_memory() {
  extern __shared__ __align__(1024) std::byte memory[];
  return memory;
}

// Completes when so many threads have arrived and all bytes expected by then have been written;
// then the next phase begins. Phases alternate between 0 and 1.
struct PhaseBarrier {
  uint64_t state;
};

__device__ inline void start_barrier(PhaseBarrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

// Makes started barriers known to copies; the block must be synchronised after.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives at a barrier of this block, which waits for so many bytes more.
__device__ inline void arrive_expecting(PhaseBarrier* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

__device__ inline void arrive_at(PhaseBarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

// What this thread has read or written in shared memory is done before copies that are sent for
// later write there. A read that was issued may still wait in line else.
__device__ inline void finish_before_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Until the phase of this parity is over.
__device__ inline void wait_phase(PhaseBarrier* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// The box at column x, row y; the barrier is told when it is there.
__device__ inline void copy_box(void* to, const CUtensorMap* matrix, int x, int y,
                                PhaseBarrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(matrix), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
}

// A matrix that will be wanted soon.
__device__ inline void prefetch_map(const CUtensorMap* matrix) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(matrix) : "memory");
}

// The first `threads` threads of the block, by another barrier than __syncthreads.
template <int threads>
__device__ void sync_first() {
  asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory");
}

// All threads of a block; a warp that has nothing to wait for arrives and goes on.
template <int threads>
__device__ void sync_block() {
  asm volatile("bar.sync 0, %0;" ::"n"(threads) : "memory");
}
template <int threads>
__device__ void arrive_at_block() {
  asm volatile("bar.arrive 0, %0;" ::"n"(threads) : "memory");
}

// So many warps of the block, by a barrier of their own: 14 of them.
template <int warps>
__device__ void sync_warps(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier + 2), "n"(warps * 32) : "memory");
}

}  // namespace sigma1::cuda
