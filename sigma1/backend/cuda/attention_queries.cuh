// A block of 16 queries of one head, whose warps share the keys, a chunk of them at a time:
// attention itself, and the part of its gradient that is summed over keys. See attention_mma.cuh.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_mma.cuh"

namespace sigma1::cuda {

template <class Size>
struct QueryBlock {
  using Element = typename Size::Element;
  static constexpr int kRun = Size::kHead * Size::kBytes <= 128 ? 32 : 16;  // a warp's of a chunk
  static constexpr int kChunk = kWarps * kRun;
  static constexpr int kTiles = kRun / 8;
  static constexpr int kBand = kRun + 16;  // distances between 16 queries and a warp's keys
  using Skewed = Skew<kBand>;
  using Scores = Tiles<kTiles>;

  // Rows in shared memory: of keys or values that only dots are taken with, whose room the warp
  // takes for products by distance afterwards; of those that are summed; of distances; of queries,
  // where they would take too many registers.
  static constexpr int kSummed = kChunk, kDistances = 2 * kChunk, kQueries = 3 * kChunk + kOwned;
  static constexpr int kRows = kQueries + (Size::kIsFp32 ? kOwned : 0);
  static constexpr int kRowsFloats = Size::floats(kRows * Size::kStride);
  using Queries = std::conditional_t<Size::kIsFp32, LeftRoom<Size>, LeftRows<Size>>;
  static constexpr int kStatsFloats = kWarps * kOwned * 4;
  static constexpr int kFloats = kRowsFloats + kStatsFloats;
  static_assert(Skewed::kFloats <= Size::floats(kRun * Size::kStride));
  static_assert(parts_floats<Size>() <= kRowsFloats);

  const Attention& a;
  Pair at;
  int i0;    // the first query
  int seen;  // keys that any of the queries sees
  int part = warp_of_block();
  float* room;

  __device__ QueryBlock(const Attention& of, float4* shared)
      : a(of), at(of), room(reinterpret_cast<float*>(shared)) {
    i0 = tile() * kOwned;
    seen = static_cast<int>(a.causal ? min(a.tk, int64_t{i0} + kOwned) : a.tk);
    if constexpr (Size::kIsFp32) {  // come with the first chunk
      copy_rows<Size, kThreads>(a, a.q, at.start(a, a.tq), i0, kOwned, a.tq, row(kQueries));
    }
  }
  // The last queries see the most keys; first, so that no block is left with them at the end. Where
  // all blocks of a large GPU run at once, two to a multiprocessor, the latter half goes the other
  // way: each has a long one and a short one.
  __device__ int tile() const {
    constexpr unsigned kAtOnce = 132 * Size::kBlocksOfSm;
    auto tiles = static_cast<int>((a.tq + kOwned - 1) / kOwned), half = (tiles + 1) / 2;
    bool turns = gridDim.x <= kAtOnce && at.tile >= half;
    return turns ? at.tile - half : tiles - 1 - at.tile;
  }
  __device__ Element* row(int n) const {
    return reinterpret_cast<Element*>(room) + n * Size::kStride;
  }
  __device__ Element* dotted() const { return row(part * kRun); }
  __device__ Element* summed() const { return row(kSummed + part * kRun); }
  // Distances from i0 − (the warp's first key) − kRun on.
  __device__ Element* distances() const { return row(kDistances + (kWarps - 1 - part) * kRun); }
  __device__ float* skew() const { return reinterpret_cast<float*>(dotted()); }
  __device__ float4* stats() const { return reinterpret_cast<float4*>(room + kRowsFloats); }
  __device__ bool has_keys(int j0) const { return j0 + part * kRun < seen; }

  // Of the chunk from j0 on, in two groups: the rows that are summed are the second. All warps must
  // be done with the distances of another.
  __device__ void copy_chunk(int j0, const View& for_dots, const View& for_sums) const {
    int64_t start = at.start(a, a.tk);
    int mine = j0 + part * kRun;
    bool has = has_keys(j0);
    if (has) copy_rows<Size, 32>(a, for_dots, start, mine, kRun, seen, dotted());
    if (a.has_relative) {
      int skipped = kChunk - min(kChunk, (seen - j0 + kRun - 1) / kRun * kRun);
      copy_rows<Size, kThreads>(a, a.relative, at.head * a.d, i0 - j0 - kChunk + skipped,
                                kChunk + kOwned - skipped, a.tk, row(kDistances + skipped));
    }
    commit_copies();
    if (has) copy_rows<Size, 32>(a, for_sums, start, mine, kRun, seen, summed());
    commit_copies();
  }

  // Of the block's queries. They are read again for each chunk, which costs less than registers.
  __device__ LeftRows<Size> left_rows(const View& from) const {
    return LeftRows<Size>(a, from, at.start(a, a.tq), i0, a.tq);
  }
  __device__ Queries queries() const {
    if constexpr (Size::kIsFp32) {
      return {row(kQueries)};
    } else {
      return left_rows(a.q);
    }
  }

  // Products with distances, where (query, key) finds its own.
  __device__ void add_skewed(const Queries& q, Scores& scores) const {
    Skewed::template keep_dots<Size>(q, distances(), skew());
    const float* from = skew() + tile_row(0) * (Skewed::kStride + 1) - tile_column(0) + kRun;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        scores[t][n] += from[n / 2 * 8 * (Skewed::kStride + 1) - t * 8 - n % 2];
      }
    }
  }
  // Which of the lane's keys from j on a mask lets be seen, a bit for each; one key after the
  // other, as few models have any mask.
  __device__ unsigned unmasked(int j) const {
    if (!a.has_mask) return ~0U;
    unsigned bits = 0;
#pragma unroll 1
    for (int n = 0; n < 2 * kTiles; ++n) {
      int key = j + n / 2 * 8 + tile_column(n);
      bool shows = key < seen && load(a.mask, at.batch * a.tk + key) > 0;
      bits |= static_cast<unsigned>(shows) << n;
    }
    return bits;
  }
  // From dot products to logits; −∞ where unseen, and 0 in `others`.
  __device__ void finish_scores(int j0, Scores& scores, Scores* others = nullptr) const {
    float scale = a.temperature * kLog2e;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int n = 0; n < 4; ++n) scores[t][n] *= scale;
    }
    int j = j0 + part * kRun, last = a.causal ? min(i0, seen - 1) : seen - 1;
    if (j + kRun - 1 <= last && !a.has_mask) return;
    unsigned bits = unmasked(j);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        int key = j + t * 8 + tile_column(n);
        int end = a.causal ? min(seen, i0 + tile_row(n) + 1) : seen;
        if (key < end && (bits >> (2 * t + n % 2) & 1) != 0) continue;
        scores[t][n] = -INFINITY;
        if (others != nullptr) (*others)[t][n] = 0;
      }
    }
  }
};

// The gradients of a warp's logits, by distance: a factor of what is summed over distances. What no
// pair of query and key lies on stays zero.
template <class Size>
struct Band {
  using Code = typename Size::Code;
  using Block = QueryBlock<Size>;
  static constexpr int kStride = Block::kBand + 8;
  static_assert(16 * kStride <= Block::kRun * Size::kStride);

  Code* room;

  __device__ void keep(const typename Block::Scores& values) const {
    constexpr int kEach = Size::kEach;
    __syncwarp();  // what lay there may still be read
#pragma unroll
    for (int i = 0; i < 16 * kStride; i += 32 * kEach) {
      int n = i + lane_of_warp() * kEach;
      if (n < 16 * kStride) *reinterpret_cast<uint4*>(room + n) = make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
    Code* to = room + tile_row(0) * (kStride + 1) - tile_column(0) + Block::kRun;
#pragma unroll
    for (int t = 0; t < Block::kTiles; ++t) {
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        Two<Size> two(values[t][n], values[t][n + 1]);
        int place = n / 2 * 8 * (kStride + 1) - t * 8;
        to[place] = two.first();
        to[place - 1] = two.second();
      }
    }
    __syncwarp();
  }
  __device__ void add_to(const typename Size::Element* distances, Tiles<Size::kTiles>& sums) const {
#pragma unroll
    for (int x = 0; x < Block::kBand; x += 16) {
      Factor<Size> weights(room + x, kStride);
      add_warp_products<Size>(weights, distances + x * Size::kStride, sums);
    }
  }
};

}  // namespace sigma1::cuda
