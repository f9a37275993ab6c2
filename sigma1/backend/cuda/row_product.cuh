// Products of a block's rows with weights, on tensor cores: two warps share 16 of the columns of
// the tiles, for all rows. Each takes every other tile of a sum, and finishes half of the rows.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_pointwise.cuh"
#include "sigma1/backend/cuda/row_sharing.cuh"
#include "sigma1/backend/cuda/row_tiles.cuh"

namespace sigma1::cuda {

// By lanes as mma.cuh has them: 16 rows, twice 8 columns. Two sums over every other 16 terms, for
// one need not wait for the other.
template <int kRows>
struct TileSums {
  Four at[kRows / 16][2][2] = {};

  // Of a lane's row of those that the warp keeps (0) or gives away (1), two neighbours of the first
  // eight columns or of the others.
  __device__ float2 pair(int m, int given, int columns) const {
    const float *a = at[m][0][columns].at + 2 * given, *b = at[m][1][columns].at + 2 * given;
    return {a[0] + b[0], a[1] + b[1]};
  }
};

// Where a lane finds its rows of the weights in a tile, for the first 16 terms.
template <bool transposed>
__device__ int weights_place(WarpPart part) {
  int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (transposed) {
    int row = part.column() + lane % 8 + lane / 16 * 8, group = lane / 8 % 2;
    return row * 128 + ((group ^ (row % 8)) << 4);
  } else {
    int row = lane % 16, group = part.column() / 8 + lane / 16;
    return group / 8 * kBoxBytes + row * 128 + ((group % 8 ^ (row % 8)) << 4);
  }
}

// Weights of 16 terms: the fragments of the first eight columns, then of the others.
template <bool transposed>
__device__ void load_weights(uint32_t (&weights)[4], uint32_t tile, int place, int term) {
  if constexpr (transposed) {
    load_matrix_x4(weights, tile + (place ^ (term * 2)));
  } else {
    load_matrix_x4_transposed(weights, tile + place + term * 128);
  }
}

// Adds kTerms of the sum; x is the lane's place among the rows, where the tile begins.
template <int kRows, class Element, bool transposed, int kTerms>
__device__ void add_terms(TileSums<kRows>& sums, uint32_t x, int stride, uint32_t tile, int place,
                          int first) {
  uint32_t a[kTerms / 16][kRows / 16][4], b[kTerms / 16][4];
#pragma unroll
  for (int k = 0; k < kTerms / 16; ++k) {
    load_weights<transposed>(b[k], tile, place, first + k * 16);
#pragma unroll
    for (int m = 0; m < kRows / 16; ++m) {
      load_matrix_x4(a[k][m], x + 2 * (m * 16 * stride + first + k * 16));
    }
  }
#pragma unroll
  for (int k = 0; k < kTerms / 16; ++k) {
#pragma unroll
    for (int m = 0; m < kRows / 16; ++m) {
      Four(&sum)[2] = sums.at[m][k % 2];
      mma_16x8x16<Element>(sum[0].at, a[k][m], {b[k][0], b[k][1]});
      mma_16x8x16<Element>(sum[1].at, a[k][m], {b[k][2], b[k][3]});
    }
  }
}

// As many terms as there are, of a tile at most.
template <int kRows, class Element, bool transposed>
__device__ void add_tile(TileSums<kRows>& sums, uint32_t x, int stride, uint32_t tile, int place,
                         int terms) {
  if (terms >= kTileDepth) {
    // As many at once as there are registers for.
    constexpr int kAtOnce = kTileDepth * 16 / kRows;
#pragma unroll
    for (int first = 0; first < kTileDepth; first += kAtOnce) {
      add_terms<kRows, Element, transposed, kAtOnce>(sums, x, stride, tile, place, first);
    }
  } else {
#pragma unroll 1
    for (int first = 0; first < terms; first += 16) {
      add_terms<kRows, Element, transposed, 16>(sums, x, stride, tile, place, first);
    }
  }
}

// Two lanes exchange pairs, so that each has four neighbours.
__device__ inline Four neighbours(float2 low, float2 high) {
  bool odd = threadIdx.x % 2 != 0;
  float2 given = odd ? low : high;
  float2 got{__shfl_xor_sync(0xffffffff, given.x, 1), __shfl_xor_sync(0xffffffff, given.y, 1)};
  return odd ? Four{got.x, got.y, high.x, high.y} : Four{low.x, low.y, got.x, got.y};
}

// The two warps that share columns give each other their sums of the rows that the other finishes.
template <int kRows, Type kType>
__device__ void finish_product(const RowBlock& block, const RowStep& step, const RowEnd<kType>& end,
                               int first_column, const TileSums<kRows>& sums,
                               TileSharing<kRows>& sharing) {
  int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
  int own_column = t % 2 ? 2 * t + 6 : 2 * t, column = first_column + own_column;
#pragma unroll
  for (int m = 0; m < kRows / 16; ++m) {
    sharing.give(m, lane / 4, 2 * t, sums.pair(m, 1, 0));
    sharing.give(m, lane / 4, 2 * t + 8, sums.pair(m, 1, 1));
  }
  Four bias{};
  if (step.bias.offset != Slot::kNone) bias = read(block, step.bias, column);
  sharing.meet();
#pragma unroll
  for (int m = 0; m < kRows / 16; ++m) {
    Four own = neighbours(sums.pair(m, 0, 0), sums.pair(m, 0, 1));
    Four other = sharing.taken(m, lane / 4, own_column), values;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      values.at[k] = step.factor * (own.at[k] + other.at[k] + bias.at[k]);
    }
    end.finish({m * 16 + sharing.part().half() * 8 + lane / 4, column}, values);
  }
  sharing.part_ways();
}

template <int kRows, Type kType, class Element, bool transposed, class Stream>
__device__ void multiply_as(const RowBlock& block, const RowStep& step, Stream& stream,
                            TileSharing<kRows>& sharing) {
  int lane = static_cast<int>(threadIdx.x) % 32;
  WarpPart part = sharing.part();
  int place = weights_place<transposed>(part);
  // The rows that the warp finishes are its first eight.
  uint32_t x = shared_address(block.at(step.x, {lane % 16 ^ part.half() * 8, lane / 16 * 8}));
  RowEnd<kType> end(block, step);
#pragma unroll 1
  for (int column = 0; column < step.out.width; column += kTileColumns) {
    bool has_columns = column + part.column() < step.out.width;
    TileSums<kRows> sums;
#pragma unroll 1
    for (int deep = stream.first_tile() * kTileDepth; deep < step.depth; deep += 2 * kTileDepth) {
      add_tile<kRows, Element, transposed>(sums, x + 2 * deep, step.x.stride, stream.next(), place,
                                           has_columns ? step.depth - deep : 0);
      stream.release();
    }
    stream.end_sum((step.depth + kTileDepth - 1) / kTileDepth);
    if (has_columns) {
      finish_product<kRows, kType>(block, step, end, column + part.column(), sums, sharing);
    }
  }
}

template <int kRows, Type kType, class Stream>
__device__ void multiply_rows(const RowBlock& block, const RowStep& step, Stream& stream,
                              TileSharing<kRows>& sharing) {
  auto multiply = [&]<class Element>(Element) {
    if (step.transposed) {
      multiply_as<kRows, kType, Element, true>(block, step, stream, sharing);
    } else {
      multiply_as<kRows, kType, Element, false>(block, step, stream, sharing);
    }
  };
  if (kType == Type::bf16 || (kType == Type::fp32 && step.x.bfloat)) {
    multiply(__nv_bfloat16{});
  } else {
    multiply(__half{});
  }
}

}  // namespace sigma1::cuda
