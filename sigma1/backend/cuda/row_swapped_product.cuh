// Products of a block's rows with weights where tensor cores read both from shared memory, and the
// weights are their left factor: 64 columns of a product for each group of four warps. Private to
// this folder.
#pragma once

#include "sigma1/backend/cuda/row_panels.cuh"
#include "sigma1/backend/cuda/row_pointwise.cuh"
#include "sigma1/backend/cuda/row_swapped_sums.cuh"
#include "sigma1/backend/cuda/row_swapped_tiles.cuh"
#include "sigma1/backend/cuda/wgmma_sixteen.cuh"

namespace sigma1::cuda {

// Which tiles of a sum are a warp's, by their terms.
struct SwappedTerms {
  int first, step, end;
};

// Bytes from 16 terms of the weights to the next, and from 16 of a panel's columns.
template <bool transposed>
constexpr int kWeightsStep = 16 * (transposed ? 2 : 128);
constexpr int kRowsStep = 16 * 2;

// Adds kTerms terms: a group of products.
template <class Element, bool transposed, int kTerms>
__device__ void start_terms(SwappedSums& sums, uint32_t weights, uint32_t rows) {
  Panels left(weights), right(rows);
  begin_products();
#pragma unroll
  for (int k = 0; k < kTerms / 16; ++k) {
    start_product_by_16<Element, !transposed>(sums, left.at(k * kWeightsStep<transposed>),
                                              right.at(k * kRowsStep));
  }
  commit_products();
}

// Of a tile that has fewer: behind them the weights have zeros, but rows may have anything.
template <class Element, bool transposed>
__device__ void add_terms(SwappedSums& sums, uint32_t weights, uint32_t rows, int count) {
#pragma unroll 1
  for (int k = 0; k < count; k += 16) {
    start_terms<Element, transposed, 16>(sums, weights, rows);
    wait_products<0>(sums);
    weights += kWeightsStep<transposed>, rows += kRowsStep;
  }
}

// `rows` and `place` are where the block's rows begin, and the group's columns in a tile. While the
// products of one tile run, those of the next are started.
template <class Element, bool transposed>
__device__ void sum_tiles(SwappedSums& sums, uint32_t rows, int place, SwappedTerms terms,
                          SwappedStream& stream) {
  auto panel = [&](int deep) { return rows + deep / kPanelColumns * kPanelBytes; };
  int deep = terms.first;
#pragma unroll 1
  for (; deep + kTileDepth <= terms.end; deep += terms.step) {
    start_terms<Element, transposed, kTileDepth>(sums, stream.next() + place, panel(deep));
    if (deep > terms.first) {
      wait_products<1>();
      stream.release();
    }
  }
  wait_products<0>(sums);
  if (deep > terms.first) stream.release();
  if (deep < terms.end) {
    add_terms<Element, transposed>(sums, stream.next() + place, panel(deep), terms.end - deep);
    stream.release();
  }
}

// By a group that has no columns of these.
__device__ inline void skip_tiles(SwappedTerms terms, SwappedStream& stream) {
#pragma unroll 1
  for (int deep = terms.first; deep < terms.end; deep += terms.step) {
    stream.next();
    stream.release();
  }
}

// The four numbers of a lane in each of its rows: eight rows where two warps share the sum.
template <Type kType>
__device__ void finish_swapped(const PanelBlock& block, const RowStep& step,
                               const RowEnd<kType, PanelBlock>& end, int first_column,
                               const SwappedSums& sums, bool shared, SwappedSharing& sharing) {
  int column = first_column + sharing.column(), half = sharing.part().half();
  Four bias{};
  if (step.bias.offset != Slot::kNone) bias = read(block, step.bias, column);
  shared ? sharing.exchange(sums) : sharing.keep(sums);
#pragma unroll 1
  for (int eight = shared ? half : 0; eight < (shared ? half + 1 : 2); ++eight) {
    Four values = shared ? sharing.exchanged(eight) : sharing.kept(eight);
#pragma unroll
    for (int k = 0; k < 4; ++k) values.at[k] = step.factor * (values.at[k] + bias.at[k]);
    end.finish({eight * 8 + sharing.row(), column}, values);
  }
}

template <Type kType>
__device__ void multiply_swapped(const PanelBlock& block, const RowStep& step,
                                 SwappedStream& stream, SwappedSharing& sharing) {
  bool bfloat = kType == Type::bf16 || (kType == Type::fp32 && step.x.bfloat);
  int column_of_warp = sharing.part().column(), box = column_of_warp / kBoxColumns;
  uint32_t rows = shared_address(block.slots + step.x.offset);
  RowEnd<kType, PanelBlock> end(block, step);
#pragma unroll 1
  for (int column = 0; column < step.out.width; column += 2 * kTileColumns) {
    bool shared = column + kTileColumns >= step.out.width;
    int first = column + (shared ? 0 : stream.turn() * kTileColumns);
    SwappedTerms terms{0, kTileDepth, step.depth};
    if (shared) terms = {stream.turn() * kTileDepth, 2 * kTileDepth, step.depth};
    SwappedSums sums = {};
    auto sum = [&]<class Element>(Element) {
      step.transposed ? sum_tiles<Element, true>(sums, rows, box * kBoxBytes, terms, stream)
                      : sum_tiles<Element, false>(sums, rows, box * kBoxBytes, terms, stream);
    };
    if (first + box * kBoxColumns >= step.out.width) {
      skip_tiles(terms, stream);
    } else if (bfloat) {
      sum(__nv_bfloat16{});
    } else {
      sum(__half{});
    }
    if (shared) stream.pass((step.depth + kTileDepth - 1) / kTileDepth);
    if (first + column_of_warp < step.out.width) {
      finish_swapped<kType>(block, step, end, first + column_of_warp, sums, shared, sharing);
    }
  }
}

}  // namespace sigma1::cuda
