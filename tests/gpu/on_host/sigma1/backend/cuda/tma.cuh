// What sigma1/backend/cuda/tma.cuh has, on a CPU.
#pragma once

#include <cuda.h>

#include "sigma1/backend/cuda/mma.cuh"
#include "tests/gpu/on_host/host_matrix.h"

namespace sigma1::cuda {

inline std::byte* shared_memory() { return host_gpu::block().memory.data(); }

struct PhaseBarrier {
  uint64_t state;
};

inline void start_barrier(PhaseBarrier* barrier, int arrivals) {
  host_gpu::start(shared_address(barrier), arrivals);
}
inline void publish_barriers() {}
inline void arrive_expecting(PhaseBarrier* barrier, int bytes) {
  host_gpu::arrive(shared_address(barrier), 1, bytes);
}
inline void arrive_at(PhaseBarrier* barrier) { host_gpu::arrive(shared_address(barrier), 1, 0); }
inline void finish_before_copies() {}
inline void wait_phase(PhaseBarrier* barrier, int parity) {
  host_gpu::wait(shared_address(barrier), parity);
}

// 64 rows of 128 bytes, the groups of 16 bytes permuted by the row's number; zeros outside.
inline void copy_box(void* to, const CUtensorMap* matrix, int x, int y, PhaseBarrier* barrier) {
  HostMatrix from;
  std::memcpy(&from, matrix, sizeof(from));
  constexpr int kSide = 64;
  uint32_t place = shared_address(to);
  host_gpu::bring_late(place, 2 * kSide * kSide, shared_address(barrier), [=] {
    for (int i = 0; i < kSide * kSide; ++i) {
      int row = i / kSide, column = i % kSide;
      uint16_t number = 0;
      if (y + row < from.height && x + column < from.width) {
        int64_t element = int64_t{y + row} * from.width + x + column;
        std::memcpy(&number, from.numbers + 2 * element, sizeof(number));
      }
      int group = column / 8 ^ row % 8;
      host_gpu::store(place + static_cast<uint32_t>(row * 128 + group * 16 + column % 8 * 2),
                      number);
    }
  });
}
inline void prefetch_map(const CUtensorMap*) {}

template <int threads>
void sync_first() {
  host_gpu::block().meetings[1].arrive_and_wait(threads);
}
template <int threads>
void sync_block() {
  host_gpu::block().meetings[0].arrive_and_wait(threads);
}
template <int threads>
void arrive_at_block() {
  host_gpu::block().meetings[0].arrive(threads);
}
template <int warps>
void sync_warps(int barrier) {
  host_gpu::block().meetings[static_cast<size_t>(barrier) + 2].arrive_and_wait(32 * warps);
}

}  // namespace sigma1::cuda
