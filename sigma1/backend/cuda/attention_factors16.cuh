// Factors of attention's products in fp16 or bf16, as a warp's lanes have them for tensor cores.
// attention_factors32.cuh has the same of fp32. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_lanes.cuh"

namespace sigma1::cuda {

// 16 numbers of each of 16 rows, as the left factor of products.
struct LeftStep {
  uint32_t at[4];
};

// All numbers of 16 rows.
template <class Size>
struct LeftRows {
  static constexpr int kSteps = Size::kHead / 16;
  LeftStep steps[kSteps];

  // Rows of one head as above, not through shared memory.
  __device__ LeftRows(const Attention& a, const View& from, int64_t start, int first,
                      int64_t limit) {
    const auto* source = static_cast<const typename Size::Element*>(from.data) + start;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int row = first + tile_row(2 * half);
      int end = row < limit ? a.d : 0;
      const auto* pairs = reinterpret_cast<const uint32_t*>(source + row * a.width) + tile_pair();
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        bool inside = step * 16 < end;
        steps[step].at[half] = inside ? __ldg(pairs + step * 8) : 0;
        steps[step].at[half + 2] = inside ? __ldg(pairs + step * 8 + 4) : 0;
      }
    }
  }
  __device__ LeftStep step(int x) const { return steps[x / 16]; }
};

// The same from rows in shared memory, each time they are needed.
template <class Size>
struct LeftRoom {
  const typename Size::Element* rows;

  __device__ LeftStep step(int x) const {
    int lane = lane_of_warp();
    LeftStep got;
    load_matrix_x4(got.at, rows + lane % 16 * Size::kStride + lane / 16 * 8 + x);
    return got;
  }
};

// sums[r][c] += left_r · columns_c
template <Of16Bits Size, int kTiles, class Left>
__device__ void add_warp_dots(const Left& left, const typename Size::Element* columns,
                              Tiles<kTiles>& sums) {
  static_assert(kTiles % 2 == 0);
  int lane = lane_of_warp();
  columns += (lane % 8 + lane / 16 * 8) * Size::kStride + lane / 8 % 2 * 8;
  uint32_t from = shared_address(columns);
#pragma unroll
  for (int x = 0; x < Size::kHead; x += 16) {
    LeftStep factor = left.step(x);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      uint32_t b[4];
      load_matrix_x4(b, from + (n * 8 * Size::kStride + x) * Size::kBytes);
      mma_16x8x16<typename Size::Element>(sums[n], factor.at, {b[0], b[1]});
      mma_16x8x16<typename Size::Element>(sums[n + 1], factor.at, {b[2], b[3]});
    }
  }
}

// 16×16 numbers that rows are multiplied by.
template <class Size>
struct Factor {
  uint32_t at[4];

  // From two tiles of results.
  __device__ Factor(const float (&left)[4], const float (&right)[4])
      : at{packed<typename Size::Element>(left[0], left[1]),
           packed<typename Size::Element>(left[2], left[3]),
           packed<typename Size::Element>(right[0], right[1]),
           packed<typename Size::Element>(right[2], right[3])} {}
  // From shared memory, where each row of `stride` numbers is one of the factor, …
  __device__ Factor(const uint16_t* rows, int stride) {
    int lane = lane_of_warp();
    load_matrix_x4(at, rows + lane % 16 * stride + lane / 16 * 8);
  }
  // … or a column.
  __device__ static Factor transposed(const uint16_t* columns, int stride) {
    int lane = lane_of_warp();
    Factor made;
    load_matrix_x4_transposed(made.at,
                              columns + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
    return made;
  }

 private:
  Factor() = default;
};

// sums_r += Σ over 16 columns c of weights[r][c] · rows_c
template <Of16Bits Size>
__device__ void add_warp_products(const Factor<Size>& weights, const typename Size::Element* rows,
                                  Tiles<Size::kTiles>& sums) {
  int lane = lane_of_warp();
  uint32_t from = shared_address(rows + lane % 16 * Size::kStride + lane / 16 * 8);
#pragma unroll
  for (int n = 0; n < Size::kTiles; n += 2) {
    uint32_t b[4];
    load_matrix_x4_transposed(b, from + n * 8 * Size::kBytes);
    mma_16x8x16<typename Size::Element>(sums[n], weights.at, {b[0], b[1]});
    mma_16x8x16<typename Size::Element>(sums[n + 1], weights.at, {b[2], b[3]});
  }
}

// The same, what is added times `factor`.
template <Of16Bits Size>
__device__ void add_scaled_products(const Factor<Size>& weights, const typename Size::Element* rows,
                                    float factor, Tiles<Size::kTiles>& sums) {
  Tiles<Size::kTiles> added = {};
  add_warp_products<Size>(weights, rows, added);
#pragma unroll
  for (int t = 0; t < Size::kTiles; ++t) {
#pragma unroll
    for (int n = 0; n < 4; ++n) sums[t][n] += factor * added[t][n];
  }
}

// Such sums to rows in shared memory.
template <Of16Bits Size>
__device__ void keep_products(const Tiles<Size::kTiles>& sums, float* rows) {
#pragma unroll
  for (int n = 0; n < Size::kTiles; ++n) {
#pragma unroll
    for (int half = 0; half < 4; half += 2) {
      float* to = rows + tile_row(half) * Size::kStride + n * 8 + tile_column(half);
      *reinterpret_cast<float2*>(to) = make_float2(sums[n][half], sums[n][half + 1]);
    }
  }
}

// Two neighbours as a factor has them.
template <class Size>
struct Two {
  uint32_t bits;

  __device__ Two(float first, float second) : bits(packed<typename Size::Element>(first, second)) {}
  __device__ void store(uint16_t* to) const { *reinterpret_cast<uint32_t*>(to) = bits; }
  __device__ uint16_t first() const { return static_cast<uint16_t>(bits); }
  __device__ uint16_t second() const { return static_cast<uint16_t>(bits >> 16); }
};

}  // namespace sigma1::cuda
