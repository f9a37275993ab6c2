// What blocks of one launch tell each other through global memory. Who waits for another block
// must be sure that it runs at the same time, or ran before. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/kernel.cuh"

namespace sigma1::cuda {

// What other blocks had written before they released a value is there for who has acquired it, and
// for whom it is then synchronised with.
__device__ inline unsigned load_acquired(const unsigned* from) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
// All that the block has written before it was synchronised goes with it. Returns what was there.
__device__ inline unsigned add_released(unsigned* to, unsigned value) {
  unsigned before;
  asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(to), "r"(value)
               : "memory");
  return before;
}

__device__ inline void set(unsigned* flag) {
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}
__device__ inline void wait_until_set(const unsigned* flag) {
  while (load_acquired(flag) == 0) continue;
}

// Where some blocks meet again and again: who leaves sees what all of them had written when they
// came. The last one to come turns the highest bit, and leaves the others as they were before the
// first one came: zeros, if they were zeros when memory was made, after any number of launches.
struct alignas(64) Meeting {  // apart from others, which are polled too
  static constexpr unsigned kTurn = 1U << 31;
  unsigned came;

  // By one thread of each of the blocks, all of which have run up to here or will; `place` is the
  // block's among them. The block must be synchronised before, and after.
  __device__ void attend(int place, int blocks) {
    unsigned before =
        add_released(&came, place > 0 ? 1 : kTurn - static_cast<unsigned>(blocks - 1));
    while (((load_acquired(&came) ^ before) & kTurn) == 0) continue;
  }
};

}  // namespace sigma1::cuda
