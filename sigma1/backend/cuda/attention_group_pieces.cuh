// Factors of products as attention_group_block.cuh has them in registers, and results on their
// way out: 16 numbers of 16 rows at a time. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_mma.cuh"

namespace sigma1::cuda::group_grad {

// A lane's part of 16×16 numbers that rows are multiplied by.
struct Piece {
  uint32_t at[4];

  __device__ explicit Piece(uint4 words) : at{words.x, words.y, words.z, words.w} {}
  template <class Size>
  __device__ explicit Piece(const Factor<Size>& factor)
      : at{factor.at[0], factor.at[1], factor.at[2], factor.at[3]} {}
  __device__ uint4 words() const { return make_uint4(at[0], at[1], at[2], at[3]); }
};

__device__ inline uint32_t transposed_8x8(uint32_t pair) {
  uint32_t turned;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
  return turned;
}
template <class Size>
__device__ Piece transposed(const Factor<Size>& factor) {
  return Piece(make_uint4(transposed_8x8(factor.at[0]), transposed_8x8(factor.at[2]),
                          transposed_8x8(factor.at[1]), transposed_8x8(factor.at[3])));
}

// All numbers of 16 rows, as the left factor of products.
template <class Size>
struct HeldRows {
  LeftStep steps[Size::kHead / 16];

  __device__ explicit HeldRows(const typename Size::Element* rows) {
#pragma unroll
    for (int x = 0; x < Size::kHead; x += 16) steps[x / 16] = LeftRoom<Size>{rows}.step(x);
  }
  __device__ LeftStep step(int x) const { return steps[x / 16]; }
};

// 16 numbers of each of 16 rows, as the right factor of products.
template <class Size>
struct RightPiece {
  uint32_t at[4];

  __device__ explicit RightPiece(const typename Size::Element* rows) {
    int lane = lane_of_warp();
    load_matrix_x4_transposed(at, rows + lane % 16 * Size::kStride + lane / 16 * 8);
  }
  // sums_r += Σ over the rows c of weights[r][c] · rows_c
  __device__ void add(const Piece& weights, Tiles<2>& sums) const {
    using Element = typename Size::Element;
    mma_16x8x16<Element>(sums[0], weights.at, {at[0], at[1]});
    mma_16x8x16<Element>(sums[1], weights.at, {at[2], at[3]});
  }
};

// A lane's numbers of a tile of 16 rows, of which `rows` from its own on exist. Apart, for its many
// instructions, which all sums share.
__device__ __noinline__ inline void store_tile(View to, int64_t place, int64_t eight_rows, int rows,
                                               float4 left, float4 right) {
  if (rows > 0) {
    store_two(to, place, make_float2(left.x, left.y));
    store_two(to, place + 8, make_float2(right.x, right.y));
  }
  if (rows > 8) {
    place += eight_rows;
    store_two(to, place, make_float2(left.z, left.w));
    store_two(to, place + 8, make_float2(right.z, right.w));
  }
}

}  // namespace sigma1::cuda::group_grad
