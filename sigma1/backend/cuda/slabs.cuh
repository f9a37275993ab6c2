// How operands of a matrix product come to tensor cores: slabs of a few terms and as many results
// as a block computes, brought to shared memory while earlier slabs are multiplied. Private to this
// folder.
#pragma once

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/cuda/mma.cuh"

namespace sigma1::cuda::slabs {

inline constexpr int kTile = 128;  // rows and columns of results
inline constexpr int kDepth = 32;  // terms of a slab, which is brought to shared memory at once
inline constexpr int kGroupThreads = 128;  // that share slabs: a warp for each quarter of the tile
inline constexpr int kUnit = 8;            // numbers of one 16-byte access
inline constexpr int kSlabUnits = kTile * kDepth / kUnit;
inline constexpr uint32_t kSlabBytes = kSlabUnits * 16;

// An operand as rows in memory; `outer` goes with the results' rows or columns.
struct Operand {
  const std::byte* data;
  Type type;
  const float* scale;
  int outer;
};

// Where a slab's unit lies, in bytes: moved within 128 of them, so that the eight that a matrix is
// loaded from are in different banks. Rows are terms, or results where they lie along the sum.
template <bool kAlong>
__device__ uint32_t place(int row, int unit) {
  int units = kAlong ? row * (kDepth / kUnit) + (unit ^ (row / 2 % 4))
                     : row * (kTile / kUnit) + (unit ^ (row % 8));
  return static_cast<uint32_t>(units) * 16;
}

// Eight numbers of 8 bits, which fp16 holds exactly.
__device__ inline uint4 widened(const std::byte* from, Type type) {
  uint2 codes = *reinterpret_cast<const uint2*>(from);
  __nv_fp8_interpretation_t format = type == Type::e4m3 ? __NV_E4M3 : __NV_E5M2;
  auto pair = [&](uint32_t code) {
    __half2_raw wide = __nv_cvt_fp8x2_to_halfraw2(static_cast<uint16_t>(code), format);
    return wide.x | static_cast<uint32_t>(wide.y) << 16;
  };
  return {pair(codes.x & 0xFFFF), pair(codes.x >> 16), pair(codes.y & 0xFFFF), pair(codes.y >> 16)};
}

// Which thread of its group this is.
__device__ inline int group_thread() { return static_cast<int>(threadIdx.x) % kGroupThreads; }

// How an operand's rows lie. It is kept in shared memory: registers are short.
struct Rows {
  int step;     // bytes from one to the next
  Type narrow;  // of 8 bits; fp16: it is not
};

// What a thread brings of an operand: units of every kRows-th row of a slab, slab after slab. Along
// the sum a row is a result's, else a term's.
template <bool kAlong>
class Source {
 public:
  // Terms from k0 of the results from outer0. All threads of the block must come here.
  __device__ Source(const Operand& from, int k, int outer0, int k0, Rows& rows) : rows_(rows) {
    bool is_wide = from.type == Type::fp16 || from.type == Type::bf16;
    int bytes = is_wide ? 2 : 1;
    if (threadIdx.x == 0) {
      rows = {(kAlong ? k : from.outer) * bytes, is_wide ? Type::fp16 : from.type};
    }
    __syncthreads();
    int term = k0 + (kAlong ? unit() * kUnit : row());
    int outer = outer0 + (kAlong ? row() : unit() * kUnit);
    int64_t first = int64_t{kAlong ? outer : term} * rows.step;
    next_ = from.data + first + (kAlong ? term : outer) * bytes;
    results_left_ = from.outer - outer;
  }

  // Begins to bring the next slab, zeros beyond the ends; `left` terms are left from its first on.
  __device__ void fetch(uint32_t slab, int left) {
    uint32_t to = slab + place<kAlong>(row(), unit());
    const Rows rows = rows_;
    if (rows.narrow == Type::fp16) {
      each_unit(to, left, rows.step, [](uint32_t there, const std::byte* from, bool inside) {
        copy_16_async(there, from, inside);
      });
      next_ += kDepth * (kAlong ? 2 : rows.step);
    } else {
      each_unit(to, left, rows.step, [&](uint32_t there, const std::byte* from, bool inside) {
        auto* units = static_cast<uint4*>(__cvta_shared_to_generic(there));
        *units = inside ? widened(from, rows.narrow) : uint4{};
      });
      next_ += kDepth * (kAlong ? 1 : rows.step);
    }
  }

 private:
  static constexpr int kRowUnits = (kAlong ? kDepth : kTile) / kUnit;
  static constexpr int kRows = kGroupThreads / kRowUnits;
  static constexpr int kUnits = kSlabUnits / kGroupThreads;
  // Then all of a thread's units are moved alike.
  static_assert(kRows % 8 == 0);

  // The thread's first unit.
  __device__ static int row() { return group_thread() / kRowUnits; }
  __device__ static int unit() { return group_thread() % kRowUnits; }

  // Calls bring(place, source, whether the unit is inside) for each of the thread's.
  template <class Bring>
  __device__ void each_unit(uint32_t to, int left, int step, Bring bring) const {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      bool inside = kAlong ? unit() * kUnit < left && i * kRows < results_left_
                           : row() + i * kRows < left && results_left_ > 0;
      bring(to + i * kRows * kRowUnits * 16, next_ + i * kRows * step, inside);
    }
  }

  const Rows& rows_;
  const std::byte* next_;
  int results_left_;  // from the first unit on
};

// What a warp computes: a quarter of the tile.
inline constexpr int kWarpTile = kTile / 2;
using Sums = float[kWarpTile / 16][kWarpTile / 8][4];

// The warp's quarter begins at (row, column) of the tile.
struct Quarter {
  int lane, row, column;

  __device__ Quarter() {
    int warp = group_thread() / 32;
    lane = static_cast<int>(threadIdx.x) % 32;
    row = warp / 2 * kWarpTile;
    column = warp % 2 * kWarpTile;
  }
};

// Where a lane loads its matrices from: offsets in slabs of a and b. What follows is found from
// these by adding and by xor, which is cheaper than keeping it.
template <bool kAlong>
struct Places {
  uint32_t a, b;

  __device__ explicit Places(const Quarter& q) {
    int lane = q.lane;
    a = kAlong ? place<true>(q.row + lane % 16, lane / 16)
               : place<false>(lane % 8 + lane / 16 * 8, q.row / kUnit + lane / 8 % 2);
    b = kSlabBytes + place<false>(lane % 16, q.column / kUnit + lane / 16);
  }
};

inline constexpr uint32_t kRowOfTermsBytes = kTile * 2, kRowOfResultsBytes = kDepth * 2;

// a[16, 16] of the i-th sixteen results and terms from `depth` on.
template <bool kAlong>
__device__ void load_a(uint32_t (&to)[4], uint32_t from, int i, int depth) {
  if constexpr (kAlong) {
    load_matrix_x4(to, (from ^ depth * 2) + 16 * i * kRowOfResultsBytes);
  } else {
    load_matrix_x4_transposed(to, (from ^ 32 * i) + depth * kRowOfTermsBytes);
  }
}

template <class Element, bool kAlong>
__device__ void add_slab(uint32_t slab, const Places<kAlong>& places, Sums& sums) {
  uint32_t from_a = slab + places.a, from_b = slab + places.b;
#pragma unroll
  for (int depth = 0; depth < kDepth; depth += 16) {
    uint32_t a[kWarpTile / 16][4];
#pragma unroll
    for (int i = 0; i < kWarpTile / 16; ++i) load_a<kAlong>(a[i], from_a, i, depth);
#pragma unroll
    for (int j = 0; j < kWarpTile / 16; ++j) {
      uint32_t both[4];  // b[16, 16]: two operands of eight columns
      load_matrix_x4_transposed(both, (from_b ^ 32 * j) + depth * kRowOfTermsBytes);
      uint32_t left[2] = {both[0], both[1]}, right[2] = {both[2], both[3]};
#pragma unroll
      for (int i = 0; i < kWarpTile / 16; ++i) {
        mma_16x8x16<Element>(sums[i][2 * j], a[i], left);
        mma_16x8x16<Element>(sums[i][2 * j + 1], a[i], right);
      }
    }
  }
}

}  // namespace sigma1::cuda::slabs
