// Factors of attention's products in fp32, as a warp's lanes have them for tensor cores: each is a
// sum of two TF32 numbers, and only the product of the rests is left out. Private to this folder.
//
// In which order terms are summed, and which tile has which column of a result, is free: a lane has
// neighbours, which it reads four at a time. Of 32 numbers along a sum lane (g, t) has those from
// 8t on, and of 32 columns of rows that are summed those from 4g on, one for each of four tiles.
// Tensor cores cut off what they add; longer sums are of few such sums, which are rounded.
#pragma once

#include "sigma1/backend/cuda/attention_factors16.cuh"

namespace sigma1::cuda {

__device__ inline float4 load_four(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

// Of rows x numbers and 16 more, where the lane's four are.
__device__ inline int place_of_step(int x) {
  return x / 32 * 32 + tile_pair() * 8 + x / 16 % 2 * 4;
}

struct LeftStep32 {
  Halves<4> at[2];

  // Of rows g and g + 8.
  __device__ LeftStep32(const float4& upper, const float4& lower) {
    at[0].set({upper.x, lower.x, upper.y, lower.y});
    at[1].set({upper.z, lower.z, upper.w, lower.w});
  }
};

template <OfFp32 Size>
struct LeftRows<Size> {
  static constexpr int kSteps = Size::kHead / 16;
  float4 halves[2][kSteps];

  __device__ LeftRows(const Attention& a, const View& from, int64_t start, int first,
                      int64_t limit) {
    const auto* source = static_cast<const float*>(from.data) + start;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int row = first + tile_row(2 * half);
      int end = row < limit ? a.d : 0;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        int x = place_of_step(step * 16);
        const auto* four = reinterpret_cast<const float4*>(source + row * a.width + x);
        halves[half][step] = x < end ? __ldg(four) : make_float4(0, 0, 0, 0);
      }
    }
  }
  __device__ LeftStep32 step(int x) const { return {halves[0][x / 16], halves[1][x / 16]}; }
};

template <OfFp32 Size>
struct LeftRoom<Size> {
  const float* rows;

  __device__ LeftStep32 step(int x) const {
    const float* from = rows + tile_row(0) * Size::kStride + place_of_step(x);
    return {load_four(from), load_four(from + 8 * Size::kStride)};
  }
};

// Two steps of a sum.
struct RightStep32 {
  Halves<2> at[2];

  __device__ explicit RightStep32(const float4& four) {
    at[0].set({four.x, four.y});
    at[1].set({four.z, four.w});
  }
};

template <OfFp32 Size, int kTiles, class Left>
__device__ void add_warp_dots(const Left& left, const float* columns, Tiles<kTiles>& sums) {
  columns += tile_row(0) * Size::kStride;
  Tiles<kTiles> rests = {};
#pragma unroll
  for (int x = 0; x < Size::kHead; x += 16) {
    LeftStep32 factor = left.step(x);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      RightStep32 column(load_four(columns + n * 8 * Size::kStride + place_of_step(x)));
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        mma_16x8x8_tf32(rests[n], factor.at[k].low, column.at[k].high);
        mma_16x8x8_tf32(rests[n], factor.at[k].high, column.at[k].low);
        mma_16x8x8_tf32(sums[n], factor.at[k].high, column.at[k].high);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] += rests[n][i];
  }
}

// Term t of a step is column 2t, and term t + 4 column 2t + 1, as lanes have results.
template <OfFp32 Size>
struct Factor<Size> {
  Halves<4> at[2];

  __device__ Factor(const float (&left)[4], const float (&right)[4]) {
    at[0].set({left[0], left[2], left[1], left[3]});
    at[1].set({right[0], right[2], right[1], right[3]});
  }
  __device__ Factor(const float* rows, int stride) {
    rows += tile_row(0) * stride + tile_column(0);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      auto upper = *reinterpret_cast<const float2*>(rows + k * 8);
      auto lower = *reinterpret_cast<const float2*>(rows + k * 8 + 8 * stride);
      at[k].set({upper.x, lower.x, upper.y, lower.y});
    }
  }
  __device__ static Factor transposed(const float* columns, int stride) {
    columns += tile_column(0) * stride + tile_row(0);
    Factor made;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float* from = columns + k * 8 * stride;
      made.at[k].set({from[0], from[8], from[stride], from[stride + 8]});
    }
    return made;
  }

 private:
  Factor() = default;
};

template <OfFp32 Size>
__device__ void add_scaled_products(const Factor<Size>& weights, const float* rows, float factor,
                                    Tiles<Size::kTiles>& sums) {
  rows += tile_column(0) * Size::kStride + tile_row(0) * 4;
#pragma unroll
  for (int n = 0; n < Size::kTiles; n += 4) {
    Tiles<4> added = {};
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float* from = rows + k * 8 * Size::kStride + n * 8;
      float4 even = load_four(from), odd = load_four(from + Size::kStride);
      Halves<2> right[4];
      right[0].set({even.x, odd.x});
      right[1].set({even.y, odd.y});
      right[2].set({even.z, odd.z});
      right[3].set({even.w, odd.w});
#pragma unroll
      for (int i = 0; i < 4; ++i) mma_16x8x8_tf32(added[i], weights.at[k].low, right[i].high);
#pragma unroll
      for (int i = 0; i < 4; ++i) mma_16x8x8_tf32(added[i], weights.at[k].high, right[i].low);
#pragma unroll
      for (int i = 0; i < 4; ++i) mma_16x8x8_tf32(added[i], weights.at[k].high, right[i].high);
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) sums[n + i / 4][i % 4] += factor * added[i / 4][i % 4];
  }
}

template <OfFp32 Size>
__device__ void add_warp_products(const Factor<Size>& weights, const float* rows,
                                  Tiles<Size::kTiles>& sums) {
  add_scaled_products<Size>(weights, rows, 1, sums);
}

template <OfFp32 Size>
__device__ void keep_products(const Tiles<Size::kTiles>& sums, float* rows) {
#pragma unroll
  for (int n = 0; n < Size::kTiles; n += 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float* to = rows + tile_row(i) * Size::kStride + n * 8 + tile_column(i) * 4;
      *reinterpret_cast<float4*>(to) =
          make_float4(sums[n][i], sums[n + 1][i], sums[n + 2][i], sums[n + 3][i]);
    }
  }
}

template <OfFp32 Size>
struct Two<Size> {
  float2 both;

  __device__ Two(float first, float second) : both(make_float2(first, second)) {}
  __device__ void store(float* to) const { *reinterpret_cast<float2*>(to) = both; }
  __device__ float first() const { return both.x; }
  __device__ float second() const { return both.y; }
};

}  // namespace sigma1::cuda
