// Storing 16 rows of gradients of one head as codes of E5M2 in both orientations, and adding up
// their columns, by the warp that has them: like attention_warp_store.cuh, without a call and
// without waiting for others. Sixteen codes of a column are half a sector; the warp's neighbour
// writes the other half at about the same time, and the cache puts them together. Private to this
// folder.
#pragma once

#include "sigma1/backend/cuda/attention_code_places.cuh"
#include "sigma1/backend/cuda/attention_warp_store.cuh"
#include "sigma1/backend/cuda/turn.cuh"

namespace sigma1::cuda {

static_assert(CodePlaces::kRows == kWarpRows && CodePlaces::kRowBytes == kPanelBytes);

// A gradient that is a part of a tensor of E5M2. Sums of columns are found by sample and by
// kSlots blocks, any of which may have a part of a head.
struct CodeGradient : TallGradient {
  static constexpr int kCount = 3;  // in a tensor: of queries, keys and values
  static constexpr int kSlots = 3;
  int number;       // among them
  uint8_t* turned;  // its first column, in the tensor as [width, rows]; null: not wanted
  int64_t rows;     // of the tensor
  float* sums;      // of its first column, by sample and slot; null: not wanted
};

// What a warp has of shared memory.
struct CodeRoom {
  std::byte* codes;  // kStoreBytes
  float* sums;       // of a head's columns so far, by gradient
};

// The warp's sums of the columns of kTiles tiles, over its 16 rows. What a lane has in the end is
// of columns CodePlaces::summed: half of the tiles stays, the other half goes to a lane that has
// the other rows of what stays.
template <int kTiles>
__device__ __forceinline__ float2 sum_columns(const float (*sums)[4], int lane) {
  if constexpr (kTiles == 1) {
    return make_float2(sums[0][0] + sums[0][2], sums[0][1] + sums[0][3]);
  } else {
    constexpr int kOther = 2 * kTiles;  // the bit by which the other lane differs
    float2 low = sum_columns<kTiles / 2>(sums, lane);
    float2 high = sum_columns<kTiles / 2>(sums + kTiles / 2, lane);
    bool keeps_high = (lane & kOther) != 0;
    float2 kept = keeps_high ? high : low, sent = keeps_high ? low : high;
    return make_float2(kept.x + __shfl_xor_sync(~0U, sent.x, kOther),
                       kept.y + __shfl_xor_sync(~0U, sent.y, kOther));
  }
}

template <class Size>
struct WarpCodes {
  static_assert(Size::kHead == kPanel);
  using Results = typename Size::Results;

  const Attention& a;
  const CodeGradient& gradient;
  int64_t row;  // the first, in the tensor
  int column;   // the first, in the gradient
  bool exists;  // all rows do, or none
  CodeRoom room;
  int lane;

  // Rows from `first` on of `of_sample` rows a sample, a multiple of 16.
  __device__ WarpCodes(const Attention& of, const Pair& at, const CodeGradient& to,
                       int64_t of_sample, int first, const CodeRoom& store_room)
      : a(of),
        gradient(to),
        row(at.batch * of_sample + first),
        column(at.head * of.d),
        exists(first < of_sample),
        room(store_room) {
    // Asked for anew: what follows from it is not to be kept in registers from store to store.
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  }

  __device__ __forceinline__ void operator()(float factor, const Results& results) const {
    if (!exists) return;
    if (gradient.sums != nullptr) add_columns(factor, results);
    __syncwarp();  // what lay there may still be read
    pack(factor, results);
    __syncwarp();
    copy_rows();
    if (gradient.turned != nullptr) copy_columns();
    __syncwarp();  // all lanes start the next products together
  }

 private:
  __device__ __forceinline__ void add_columns(float factor, const Results& results) const {
    float2 more = sum_columns<Size::kTiles>(results, lane);
    float* sums = room.sums + gradient.number * kPanel + CodePlaces::summed(lane);
    auto& both = *reinterpret_cast<float2*>(sums);
    both = make_float2(fmaf(more.x, factor, both.x), fmaf(more.y, factor, both.y));
  }
  __device__ __forceinline__ void pack(float factor, const Results& results) const {
#pragma unroll
    for (int n = 0; n < CodePlaces::kPairs; ++n) {
      const float* two = &results[n / 2][n % 2 * 2];
      float2 scaled = make_float2(two[0] * factor, two[1] * factor);
      *reinterpret_cast<uint16_t*>(room.codes + CodePlaces::at(CodePlaces::pair(lane, n))) =
          __nv_cvt_float2_to_fp8x2(scaled, __NV_SATFINITE, __NV_E5M2);
    }
  }
  __device__ __forceinline__ void copy_rows() const {
    CodePlaces::Place first = CodePlaces::piece(lane, 0);
    auto* to = static_cast<uint8_t*>(gradient.to.data) + (row + first.row) * gradient.pitch +
               column + first.column;
    bool inside = first.column < a.d;
#pragma unroll
    for (int n = 0; n < CodePlaces::kPieceTurns; ++n) {
      CodePlaces::Place next = CodePlaces::piece(lane, n);
      auto codes = *reinterpret_cast<const uint4*>(room.codes + CodePlaces::at(next));
      if (inside) *reinterpret_cast<uint4*>(to) = codes;
      to += (CodePlaces::piece(0, 1).row - CodePlaces::piece(0, 0).row) * gradient.pitch;
    }
  }
  __device__ __forceinline__ void copy_columns() const {
    CodePlaces::Place first = CodePlaces::block(lane);
    if (first.column >= a.d) return;
    uint32_t upper[4], lower[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      upper[k] = word_at({first.row + k, first.column});
      lower[k] = word_at({first.row + 4 + k, first.column});
    }
    turn_words(upper);
    turn_words(lower);
    uint8_t* to = gradient.turned + (column + first.column) * gradient.rows + row + first.row;
#pragma unroll
    for (int k = 0; k < CodePlaces::kWord; ++k, to += gradient.rows) {
      *reinterpret_cast<uint2*>(to) = make_uint2(upper[k], lower[k]);
    }
  }
  __device__ __forceinline__ uint32_t word_at(CodePlaces::Place place) const {
    return *reinterpret_cast<const uint32_t*>(room.codes + CodePlaces::at(place));
  }
};

}  // namespace sigma1::cuda
