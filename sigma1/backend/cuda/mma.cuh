// Tensor cores, and the ways into shared memory and registers that feed them, as functions. Lane
// l of a warp is (g, t) = (l / 4, l % 4) below. Private to this folder.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace sigma1::cuda {

// d[16, 8] += a[16, 16] · b[16, 8] by a warp; Element is __half or __nv_bfloat16. Of d a lane has
// (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1); of a the pairs from (g, 2t), (g + 8, 2t),
// (g, 2t + 8), (g + 8, 2t + 8); of b the pairs down from (2t, g), (2t + 8, g).
template <class Element>
__device__ inline void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(std::is_same_v<Element, __half> || std::is_same_v<Element, __nv_bfloat16>);
  if constexpr (std::is_same_v<Element, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// d[16, 8] += a[16, 8] · b[8, 8] of fp32 numbers whose last 13 bits are ignored. Of a a lane has
// (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4); of b (t, g), (t + 4, g).
__device__ inline void mma_16x8x8_tf32(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// A number as one that TF32 holds, to nearest, and the rest, of which the product ignores the last
// bits. NaN stays in the rest.
template <int kCount>
struct Halves {
  float high[kCount], low[kCount];

  __device__ void set(int i, float value) {
    high[i] = __uint_as_float((__float_as_uint(value) + 0x1000) & 0xFFFFE000);
    low[i] = value - high[i];
  }
  __device__ void set(const float (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) set(i, values[i]);
  }
};

// Two numbers of a factor, the first in the low half.
template <class Element>
__device__ inline uint32_t packed(float first, float second) {
  uint32_t bits;
  if constexpr (std::is_same_v<Element, __half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  }
  return bits;
}

// The same; numbers that would overflow become the largest, NaN stays.
template <class Element>
__device__ inline uint32_t packed_within(float first, float second) {
  uint32_t bits;
  if constexpr (std::is_same_v<Element, __half>) {
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  }
  return bits;
}

__device__ inline uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

// Four 8×8 matrices of 16-bit numbers: lane l names row l % 8 of matrix l / 8, 16 bytes of shared
// memory, and gets of each matrix the pair from (g, 2t). Rows, and places below, are addresses
// within shared memory, which take half the registers of pointers.
__device__ inline void load_matrix_x4(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// The same, each matrix transposed: the pair down from (2t, g).
__device__ inline void load_matrix_x4_transposed(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// The other way: a lane's pairs go to the rows that lanes name.
__device__ inline void store_matrix_x4(uint32_t row, const uint32_t (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
               :
               : "r"(row), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// 16 bytes to shared memory, while the thread goes on; zeros where it is not `inside`, and nothing
// is read then.
__device__ inline void copy_16_async(uint32_t to, const void* from, bool inside = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(from), "r"(inside ? 16 : 0)
               : "memory");
}

__device__ inline void load_matrix_x4(uint32_t (&to)[4], const void* row) {
  load_matrix_x4(to, shared_address(row));
}
__device__ inline void load_matrix_x4_transposed(uint32_t (&to)[4], const void* row) {
  load_matrix_x4_transposed(to, shared_address(row));
}
__device__ inline void copy_16_async(void* to, const void* from, bool inside = true) {
  copy_16_async(shared_address(to), from, inside);
}

// Ends a group of copies.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all but the last kLeft groups of this thread have come.
template <int kLeft>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

}  // namespace sigma1::cuda
