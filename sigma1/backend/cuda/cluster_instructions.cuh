// The instructions by which blocks of a cluster reach each other, and other ways into shared
// memory, as functions. Places are addresses within shared memory. See cluster_block.cuh for who
// includes this; tests have a file of the same name that does the same on a CPU.
#pragma once

#include "sigma1/backend/cuda/tma.cuh"

namespace sigma1::cuda {

// The blocks of a cluster find each other before they send, and leave together: what others read or
// are sent from a block's memory is there until then.
__device__ inline void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ inline void be_done_with_others() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
// Of who read from others last: a read may still be on its way when what follows it begins, and
// would find another kernel's numbers, or nobody, where the block was.
__device__ inline void be_done_reading_others() { arrive_at_cluster(); }

// The same place in another block of the cluster.
__device__ inline uint32_t in_block(uint32_t place, int rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(rank));
  return there;
}

// To a place in another block, whose barrier is told of the bytes.
__device__ inline void send_16(uint32_t to, uint32_t barrier, uint4 pairs) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%2, %3, %4, %5}, "
      "[%1];" ::"r"(to),
      "r"(barrier), "r"(pairs.x), "r"(pairs.y), "r"(pairs.z), "r"(pairs.w)
      : "memory");
}
// The same from this block's memory, while the thread goes on.
__device__ inline void send_bytes(uint32_t to, uint32_t barrier, uint32_t from, int bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// What all threads of this block wrote before they met is there for who waits for the barrier.
__device__ inline void arrive_at_other(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}
__device__ inline float4 read_from_block(uint32_t place, int rank) {
  float4 got;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(got.x), "=f"(got.y), "=f"(got.z), "=f"(got.w)
               : "r"(in_block(place, rank))
               : "memory");
  return got;
}

__device__ inline uint32_t load_4(uint32_t from) {
  uint32_t got;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(got) : "r"(from) : "memory");
  return got;
}
__device__ inline uint2 load_8(uint32_t from) {
  uint2 got;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(got.x), "=r"(got.y)
               : "r"(from)
               : "memory");
  return got;
}
__device__ inline void store_4(uint32_t to, uint32_t bits) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(bits) : "memory");
}
__device__ inline void store_8(uint32_t to, uint2 pairs) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(pairs.x), "r"(pairs.y) : "memory");
}
__device__ inline uint4 load_16(uint32_t from) {
  uint4 got;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(got.x), "=r"(got.y), "=r"(got.z), "=r"(got.w)
               : "r"(from)
               : "memory");
  return got;
}

// Half as much as load_matrix_x4 and store_matrix_x4: two 8×8 matrices, named by 16 lanes.
__device__ inline void load_matrix_x2(uint32_t (&to)[2], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(row)
               : "memory");
}
__device__ inline void load_matrix_x2_transposed(uint32_t (&to)[2], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(row)
               : "memory");
}
__device__ inline void store_matrix_x2(uint32_t row, uint32_t first, uint32_t second) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" ::"r"(row), "r"(first),
               "r"(second)
               : "memory");
}

// Two numbers of 16 bits as floats.
template <class Element>
__device__ inline void unpack(uint32_t pair, float& first, float& second) {
  if constexpr (std::is_same_v<Element, __half>) {
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\n"
        "cvt.f32.f16 %1, high;\n}"
        : "=f"(first), "=f"(second)
        : "r"(pair));
  } else {
    first = __uint_as_float(pair << 16);
    second = __uint_as_float(pair & 0xFFFF0000);
  }
}

}  // namespace sigma1::cuda
