// Products of blocks of 64 rows: the tensor cores of four warps at once read the weights of a tile
// from shared memory themselves, 32 columns for each such group of warps, and every number of them
// serves all rows. Private to this folder; see row_product.cuh for blocks of fewer rows.
#pragma once

#include "sigma1/backend/cuda/row_product.cuh"
#include "sigma1/backend/cuda/wgmma.cuh"

namespace sigma1::cuda {

constexpr int kGroupColumns = 32, kBoxRowBytes = 128;
static_assert(kWorkers / 128 * kGroupColumns == kTileColumns && kBoxColumns == 2 * kGroupColumns);

// What a warp that computes sees of the ring where each uses every tile: several at once, which it
// gives back in their order.
class WholeTileStream {
 public:
  __device__ explicit WholeTileStream(TileRing<kTallBlock>& ring) : ring_(ring) {}

  // The next tile, in shared memory.
  __device__ uint32_t next() {
    wait_phase(&ring_.arrived[place_.index], place_.phase);
    uint32_t tile = shared_address(ring_.tiles[place_.index]);
    place_.move_on();
    return tile;
  }

  // The warp has used the oldest.
  __device__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive_at(&ring_.used[oldest_]);
    oldest_ = oldest_ + 1 == stages_for(kTallBlock) ? 0 : oldest_ + 1;
  }

 private:
  TileRing<kTallBlock>& ring_;
  RingPlace<stages_for(kTallBlock)> place_;
  int oldest_ = 0;
};

// The columns of a tile that a group sums, and the rows of which a warp of it has the sums.
struct GroupPart {
  int thread = thread_of_block<kTallBlock>(), warp = thread / 32, lane = thread % 32;

  __device__ int group() const { return warp / 4; }
  __device__ int column() const { return group() * kGroupColumns; }
  __device__ int row() const { return warp % 4 * 16; }

  // Where the group's columns begin in a tile. A box is a panel of wgmma.cuh. Where weights are
  // transposed, its rows are columns of the product and their numbers terms: a group has 32 rows,
  // 4 times the 1,024 bytes after which the permutation repeats itself, and 16 terms more are 32
  // bytes more. Else its rows are terms: a group has 64 bytes of each, the first or the last four
  // of their pieces, and 16 terms more are 16 rows more.
  template <bool transposed>
  __device__ int place() const {
    int box = group() / 2 * kBoxBytes, second = group() % 2;
    return box + second * kGroupColumns * (transposed ? kBoxRowBytes : 2);
  }
};

// By lanes as mma.cuh has them: 16 rows, four times 8 columns.
using TallSums = float[kGroupColumns / 8][4];

// A warp's rows of the terms that are multiplied together: half a tile's.
struct TallFactors {
  static constexpr int kTerms = kTileDepth / 2;
  uint32_t at[kTerms / 16][4];

  // The terms from `first` on of `count`; x is the lane's place among the rows. Behind the last are
  // zeros: the weights have zeros there, but rows may have anything. (No branches: the compiler
  // would let products wait for each other.)
  __device__ void load(uint32_t x, int first, int count) {
#pragma unroll
    for (int k = 0; k < kTerms / 16; ++k) {
      int term = first + k * 16;
      bool exists = term < count;
      load_matrix_x4(at[k], x + (exists ? 2 * term : 0));
#pragma unroll
      for (uint32_t& pair : at[k]) pair = exists ? pair : 0;
    }
  }

  // Adds the terms from `first` on of the group's columns of a tile; a group of products.
  template <class Element, bool transposed>
  __device__ void start(TallSums& sums, uint32_t weights, int first) const {
    constexpr int kTermBytes = transposed ? 2 : kBoxRowBytes;
    Panels panels(weights);
    begin_products();
#pragma unroll
    for (int k = 0; k < kTerms; k += 16) {
      start_narrow_product<Element, !transposed>(sums, at[k / 16],
                                                 panels.at((first + k) * kTermBytes), true);
    }
    commit_products();
  }
};

// While products of one half of a tile run, the rows' terms of the next are loaded and its products
// started.
template <class Element, bool transposed>
__device__ void sum_tiles(TallSums& sums, uint32_t x, int depth, int place,
                          WholeTileStream& stream) {
  constexpr int kHalf = TallFactors::kTerms;
  TallFactors first, second;
  first.load(x, 0, depth);
#pragma unroll 1
  for (int deep = 0; deep < depth; deep += kTileDepth) {
    uint32_t weights = stream.next() + place;
    first.start<Element, transposed>(sums, weights, 0);
    wait_products<1>();
    if (deep > 0) stream.release();
    second.load(x, deep + kHalf, depth);
    second.start<Element, transposed>(sums, weights, kHalf);
    wait_products<1>();
    first.load(x, deep + kTileDepth, depth);
  }
  wait_products<0>(sums);
  stream.release();
}

// Of the group's columns 16 at a time: the last 16 take the first ones' registers.
template <Type kType>
__device__ void finish_tall(const RowBlock& block, const RowStep& step, RowPlace first,
                            TallSums& sums) {
  int lane = thread_of_block<kTallBlock>() % 32, t = lane % 4, row = first.row + lane / 4;
  int own_column = t % 2 ? 2 * t + 6 : 2 * t;
#pragma unroll 1
  for (int n = 0; n < kGroupColumns && first.column + n < step.out.width; n += 16) {
    int column = first.column + n + own_column;
    Four bias{}, values[2];
    if (step.bias.offset != Slot::kNone) bias = read(block, step.bias, column);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float *low = &sums[0][2 * half], *high = &sums[1][2 * half];
      values[half] = neighbours({low[0], low[1]}, {high[0], high[1]});
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        values[half].at[k] = step.factor * (values[half].at[k] + bias.at[k]);
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i / 4][i % 4] = sums[i / 4 + 2][i % 4];
    finish_places<kType>(block, step, {{row, column}, {row + 8, column}}, values);
  }
}

template <Type kType, class Element, bool transposed>
__device__ void multiply_tall(const RowBlock& block, const RowStep& step, WholeTileStream& stream) {
  GroupPart part;
  int lane = part.lane;
  uint32_t x = shared_address(block.at(step.x, {part.row() + lane % 16, lane / 16 * 8}));
#pragma unroll 1
  for (int column = 0; column < step.out.width; column += kTileColumns) {
    int own_column = column + part.column();
    if (own_column >= step.out.width) {
      for (int deep = 0; deep < step.depth; deep += kTileDepth) {
        stream.next();
        stream.release();
      }
    } else {
      TallSums sums{};
      sum_tiles<Element, transposed>(sums, x, step.depth, part.place<transposed>(), stream);
      finish_tall<kType>(block, step, {part.row(), own_column}, sums);
    }
  }
}

template <>
struct ProductRoom<kTallBlock> {
  TileRing<kTallBlock> ring;
};

template <>
class RowProducts<kTallBlock> {
 public:
  __device__ explicit RowProducts(ProductRoom<kTallBlock>& room) : stream_(room.ring) {}

  template <Type kType>
  __device__ void multiply(const RowBlock& block, const RowStep& step) {
    with_factors<kType>(
        step, [&]<class Element, bool transposed>(Element, std::bool_constant<transposed>) {
          multiply_tall<kType, Element, transposed>(block, step, stream_);
        });
  }

 private:
  WholeTileStream stream_;
};

}  // namespace sigma1::cuda
