// A tile of a product of fp32 numbers on tensor cores. Factors are sums of two TF32 numbers, whose
// products leave most of the error to the sums in fp32. Private to this folder.
#pragma once

#include <algorithm>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/cuda/mma.cuh"

namespace sigma1::cuda::tf32_tile {

inline constexpr int kTile = 64;   // results of a block, each way
inline constexpr int kDepth = 32;  // terms that come at once
inline constexpr int kWarpTile = 32, kTileThreads = 128;
inline constexpr int kEach = kTile * kDepth / kTileThreads;

// [kTile, kDepth] of a factor. kAlong: neighbours in memory are along the sum. Padded so that a
// warp's fragment is in different banks.
template <bool kAlong>
struct Slab {
  static constexpr int kStride = kAlong ? kDepth + 4 : kTile + 8;
  static constexpr int kFloats = kStride * (kAlong ? kTile : kDepth);

  __device__ static int place(int outer, int k) {
    return kAlong ? outer * kStride + k : k * kStride + outer;
  }
  // Calls body(n, outer, k) for each number that this thread brings.
  template <class Body>
  __device__ static void for_own(Body body) {
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      int i = static_cast<int>(threadIdx.x) + kTileThreads * n;
      kAlong ? body(n, i / kDepth, i % kDepth) : body(n, i % kTile, i / kTile);
    }
  }
};
// Of a factor, and of all that a block needs: the slabs, or the results.
inline constexpr int kSlabFloats = std::max(Slab<true>::kFloats, Slab<false>::kFloats);
inline constexpr int kShared = std::max(2 * kSlabFloats, kTile* kTile);

struct Place {
  int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  int row = static_cast<int>(threadIdx.x) / 64 * kWarpTile;  // of the warp in the tile
  int column = static_cast<int>(threadIdx.x) / 32 % 2 * kWarpTile;
};
using Sums = float[kWarpTile / 16][kWarpTile / 8][4];

// Eight terms from k on. The right factor has no rest where TF32 holds its numbers.
template <bool kAlong, bool kExact>
__device__ void add_terms(const float* a, const float* b, const Place& at, int k, Sums& sums) {
  Halves<4> left[kWarpTile / 16];
  Halves<2> right[kWarpTile / 8];
#pragma unroll
  for (int i = 0; i < kWarpTile / 16; ++i) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      int outer = at.row + 16 * i + at.g + 8 * (r % 2);
      left[i].set(r, a[Slab<kAlong>::place(outer, k + at.t + 4 * (r / 2))]);
    }
  }
#pragma unroll
  for (int j = 0; j < kWarpTile / 8; ++j) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      right[j].set(r, b[Slab<kAlong>::place(at.column + 8 * j + at.g, k + at.t + 4 * r)]);
    }
  }
#pragma unroll
  for (int part = 0; part < (kExact ? 2 : 3); ++part) {
#pragma unroll
    for (int i = 0; i < kWarpTile / 16; ++i) {
#pragma unroll
      for (int j = 0; j < kWarpTile / 8; ++j) {
        mma_16x8x8_tf32(sums[i][j], part == 0 ? left[i].low : left[i].high,
                        part == 1 && !kExact ? right[j].low : right[j].high);
      }
    }
  }
}

// Σ over k in [begin, end) of a(outer, k) · b(outer, k), outers counted from the tile's. What
// comes next is on its way while a slab is multiplied.
template <bool kAlong, bool kExact, class A, class B>
__device__ void multiply_tile(int begin, int end, const A& a, const B& b, float* shared,
                              Sums& sums) {
  Place at;
  float *slab_a = shared, *slab_b = shared + kSlabFloats;
  uint32_t next_a[kEach], next_b[kEach];
  auto bring = [&](int k0) {
    Slab<kAlong>::for_own([&](int n, int outer, int k) {
      bool inside = k0 + k < end;
      next_a[n] = inside ? a.bits(outer, k0 + k) : 0;
      next_b[n] = inside ? b.bits(outer, k0 + k) : 0;
    });
  };
  bring(begin);
  for (int k0 = begin; k0 < end; k0 += kDepth) {
    __syncthreads();  // all are done with the slab before
    Slab<kAlong>::for_own([&](int n, int outer, int k) {
      slab_a[Slab<kAlong>::place(outer, k)] = a.number(outer, next_a[n]);
      slab_b[Slab<kAlong>::place(outer, k)] = b.number(outer, next_b[n]);
    });
    __syncthreads();
    bring(k0 + kDepth);
#pragma unroll
    for (int k = 0; k < kDepth; k += 8) add_terms<kAlong, kExact>(slab_a, slab_b, at, k, sums);
  }
  __syncthreads();
}

// Calls body(row, column, sum) for the results of this thread.
template <class Body>
__device__ void for_sums(const Sums& sums, Body body) {
  Place at;
#pragma unroll
  for (int i = 0; i < kWarpTile / 16; ++i) {
#pragma unroll
    for (int j = 0; j < kWarpTile / 8; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        body(at.row + 16 * i + at.g + r / 2 * 8, at.column + 8 * j + 2 * at.t + r % 2,
             sums[i][j][r]);
      }
    }
  }
}

}  // namespace sigma1::cuda::tf32_tile
