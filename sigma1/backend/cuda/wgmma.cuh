// Tensor cores fed by a group of four warps, of whose results each warp has 16 rows: the right
// factor, or both, are read from shared memory by the tensor cores themselves, while the warps go
// on. Lanes of a warp have of left factors and results what mma_16x8x16 gives them. For sm_90a.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/mma.cuh"

namespace sigma1::cuda {

// Rows of 64 numbers of 16 bits in shared memory, 128 bytes each, whose pieces of 16 bytes are
// permuted: piece c of row r lies at c ^ r % 8. `at`, of the first row, is a multiple of 1024, but
// for 32 bytes for every 16 numbers to be left out, where rows are not transposed.
__device__ inline uint64_t panel_of(uint32_t at) {
  constexpr uint64_t kEightRows = 1024, kUnit = 16, kPermuted = uint64_t{1} << 62;
  return at / kUnit | uint64_t{1} << 16 | kEightRows / kUnit << 32 | kPermuted;
}

// The same for many products whose panels are so many bytes behind a first one, which all lanes of
// a warp agree on: an addition each.
class Panels {
 public:
  __device__ explicit Panels(uint32_t first)
      : low_(static_cast<uint32_t>(panel_of(first))), high_(panel_of(0) >> 32) {}
  __device__ uint64_t at(int bytes) const {
    uint64_t panel;
    asm("mov.b64 %0, {%1, %2};" : "=l"(panel) : "r"(low_ + bytes / 16), "r"(high_));
    return panel;
  }

 private:
  uint32_t low_, high_;
};

// d[64, 64] = a[64, 16] · b[16, 64] + (keeps ? d : 0), not before wait_products. Rows of b's panel
// are its columns, or its rows where it is transposed.
template <class Element, bool kTransposed>
__device__ inline void start_product(float (*d)[4], const uint32_t (&a)[4], uint64_t b,
                                     bool keeps) {
  if constexpr (std::is_same_v<Element, __half>) {
    asm volatile(
        "{\n.reg .pred keeps;\nsetp.ne.b32 keeps, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, keeps, 1, 1, %38;\n}"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
          "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
          "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
          "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
          "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
          "+f"(d[7][2]), "+f"(d[7][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{keeps}),
          "n"(int{kTransposed}));
  } else {
    asm volatile(
        "{\n.reg .pred keeps;\nsetp.ne.b32 keeps, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, keeps, 1, 1, %38;\n}"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
          "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
          "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
          "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
          "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
          "+f"(d[7][2]), "+f"(d[7][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{keeps}),
          "n"(int{kTransposed}));
  }
}

// The same with a panel as a, whose rows are a's, or its columns where both are transposed.
template <class Element, bool kTransposed = false>
__device__ inline void start_product(float (*d)[4], uint64_t a, uint64_t b, bool keeps) {
  if constexpr (std::is_same_v<Element, __half>) {
    asm volatile(
        "{\n.reg .pred keeps;\nsetp.ne.b32 keeps, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, keeps, 1, 1, %35, %35;\n}"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
          "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
          "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
          "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
          "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
          "+f"(d[7][2]), "+f"(d[7][3])
        : "l"(a), "l"(b), "r"(int{keeps}), "n"(int{kTransposed}));
  } else {
    asm volatile(
        "{\n.reg .pred keeps;\nsetp.ne.b32 keeps, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, keeps, 1, 1, %35, %35;\n}"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
          "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
          "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
          "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
          "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
          "+f"(d[7][2]), "+f"(d[7][3])
        : "l"(a), "l"(b), "r"(int{keeps}), "n"(int{kTransposed}));
  }
}

// Before products are started: what was written to their registers is there.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Ends a group of products.
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until all but the last kLeft groups are done, of which `d` are results.
template <int kLeft, int kTiles>
__device__ inline void wait_products(float (&d)[kTiles][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
#pragma unroll
  for (int n = 0; n < 4 * kTiles; ++n) asm volatile("" : "+f"(d[n / 4][n % 4])::"memory");
}

// What this thread has written to shared memory, or what was copied there for it, is there for
// tensor cores too, once the block is synchronised.
__device__ inline void show_to_tensor_cores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace sigma1::cuda
