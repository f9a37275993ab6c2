// A block of 128 queries of one head that goes through the keys, and values, which they see:
// attention itself, and the part of its gradient that is summed over keys. See attention_tall.cuh.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_tall.cuh"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {

// kOwned tensors of the block's queries are in shared memory.
template <class Size, int kOwned>
struct TallQueries {
  static constexpr int kTilesPlace = kOwned * Size::kOwnedBytes;
  static constexpr int kSeenPlace = kTilesPlace + 4 * Size::kTileBytes;

  const Attention& a;
  Pair at;
  int i0, warp_row;  // the block's first query, and which of the rows is the warp's first
  int end;           // tiles of keys that any of the queries sees
  std::byte* room = shared_memory();

  static int floats(const Attention& of) {
    int64_t words = of.has_mask ? ceil_div(of.tk, kTallTile) * 2 : 0;
    return kSeenPlace / 4 + static_cast<int>(words);
  }
  __device__ TallQueries(const Attention& of, const TallGrid& grid)
      : a(of), at(grid.pair(of)), warp_row(warp_of_block() * Size::kWarpRows) {
    // The last queries see the most keys.
    i0 = (grid.tiles - 1 - at.tile) * kTallRows;
    auto keys = static_cast<int>(a.causal ? min(a.tk, int64_t{i0} + kTallRows) : a.tk);
    end = (keys + kTallTile - 1) / kTallTile;
  }
  __device__ int warp_i() const { return i0 + warp_row; }
  // The warp's rows of an owned tensor, and tiles of keys (0) and values (1).
  __device__ std::byte* owned(int which) const {
    return room + which * Size::kOwnedBytes + warp_row * Size::kRowBytes;
  }
  __device__ uint32_t tile(int stage, int which) const {
    return shared_address(room) + kTilesPlace + (2 * stage + which) * Size::kTileBytes;
  }
  __device__ uint32_t* words() const { return reinterpret_cast<uint32_t*>(room + kSeenPlace); }

  __device__ void copy_owned(int which, const View& from) const {
    copy_tall<Size, kTallRows>(a, from, at.start(a, a.tq), i0, a.tq,
                               shared_address(room) + which * Size::kOwnedBytes);
  }
  __device__ void copy_tile(int number, int stage) const {
    if (number < end) {
      int64_t start = at.start(a, a.tk);
      int first = number * kTallTile;
      copy_tall<Size, kTallTile>(a, a.k, start, first, a.tk, tile(stage, 0));
      copy_tall<Size, kTallTile>(a, a.v, start, first, a.tk, tile(stage, 1));
    }
    commit_copies();
  }
  // Where there is a mask: a bit for each key that it shows.
  __device__ void find_seen() const {
    int lane = lane_of_warp();
    for (int word = warp_of_block(); word < 2 * end; word += Size::kBlockThreads / 32) {
      int key = word * 32 + lane;
      bool shows = key < a.tk && load(a.mask, at.batch * a.tk + key) > 0;
      unsigned bits = __ballot_sync(~0U, shows);
      if (lane == 0) words()[word] = bits;
    }
    __syncthreads();
  }
  __device__ uint64_t seen(int number) const {
    if (a.has_mask) return reinterpret_cast<const uint64_t*>(words())[number];
    int count = static_cast<int>(a.tk) - number * kTallTile;
    return count >= kTallTile ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  }
  // The first tile from `number` on that has a key to be seen.
  __device__ int next(int number) const {
    while (number < end && seen(number) == 0) ++number;
    return number;
  }
  // Copies the first tile, after that of owned tensors has begun, and waits for all; returns it.
  __device__ int begin() const {
    if (a.has_mask) find_seen();
    int first = next(0);
    copy_tile(first, 0);
    wait_copies<0>();
    __syncthreads();
    return first;
  }
  // visit(key, its row of the tile, stage, bits of keys seen) for all steps that the warp has.
  template <class Visit>
  __device__ void for_each_step(int first, Visit visit) const {
    constexpr uint64_t kAll = ~uint64_t{0} >> (64 - Size::kStep);
    int stage = 0;
    for (int number = first; number < end; stage ^= 1) {
      int then = next(number + 1);
      copy_tile(then, stage ^ 1);
      uint64_t of_tile = seen(number);
#pragma unroll 1
      for (int row = 0; row < kTallTile; row += Size::kStep) {
        int key = number * kTallTile + row;
        uint64_t bits = of_tile >> row & kAll;
        bool skips = bits == 0 || (a.causal && key >= warp_i() + Size::kWarpRows);
        if (!skips) visit(key, row, stage, bits);
      }
      wait_copies<0>();
      __syncthreads();
      number = then;
    }
  }
  // −∞ for scores that are not to be seen, and 0 in `others`.
  __device__ void hide(int key, uint64_t bits, typename Size::Scores& scores,
                       typename Size::Scores* others = nullptr) const {
    bool whole = bits == ~uint64_t{0} >> (64 - Size::kStep);
    if (whole && (!a.causal || key + Size::kStep - 1 <= warp_i())) return;
    bits >>= tile_column(0);
#pragma unroll
    for (int m = 0; m < Size::kM; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        int last = warp_i() + m * 16 + tile_row(n) - key - tile_column(0);
        if (!a.causal) last = kTallTile;
#pragma unroll
        for (int t = 0; t < Size::kN; ++t) {
          int column = t * 8 + n % 2;
          if ((bits >> column & 1) != 0 && column <= last) continue;
          scores[m][t][n] = -INFINITY;
          if (others != nullptr) (*others)[m][t][n] = 0;
        }
      }
    }
  }
};

}  // namespace sigma1::cuda
