// Products by a few rows of another matrix, with both factors in shared memory: see wgmma.cuh,
// whose products have 64 columns. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/wgmma.cuh"

namespace sigma1::cuda {

// d[64, 16] += a[64, 16] · b[16, 16], not before wait_products. Rows of a's panel are its rows, or
// its columns where it is transposed; rows of b's panel are its columns.
template <class Element, bool kTransposed>
__device__ inline void start_product_by_16(float (&d)[2][4], uint64_t a, uint64_t b) {
  if constexpr (std::is_same_v<Element, __half>) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1, %10, 0;"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
          "+f"(d[1][2]), "+f"(d[1][3])
        : "l"(a), "l"(b), "n"(int{kTransposed}));
  } else {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1, %10, 0;"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
          "+f"(d[1][2]), "+f"(d[1][3])
        : "l"(a), "l"(b), "n"(int{kTransposed}));
  }
}

}  // namespace sigma1::cuda
