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
  int i0;      // the block's first query
  int warp_i;  // the warp's
  int end;     // tiles of keys that any of the queries sees
  std::byte* room = shared_memory();

  static int floats(const Attention& of) {
    int64_t words = of.has_mask ? ceil_div(of.tk, kTallTile) * 2 : 0;
    return kSeenPlace / 4 + static_cast<int>(words);
  }
  __device__ TallQueries(const Attention& of, const TallGrid& grid) : a(of), at(grid.pair(of)) {
    // The last queries see the most keys.
    i0 = (grid.tiles - 1 - at.tile) * kTallRows;
    warp_i = i0 + warp_of_block() * kWarpRows;
    auto keys = static_cast<int>(a.causal ? min(a.tk, int64_t{i0} + kTallRows) : a.tk);
    end = (keys + kTallTile - 1) / kTallTile;
  }
  // An owned tensor, and tiles of keys (0) and values (1).
  __device__ uint32_t owned(int which) const {
    return shared_address(room) + which * Size::kOwnedBytes;
  }
  __device__ uint32_t tile(int stage, int which) const {
    return shared_address(room) + kTilesPlace + (2 * stage + which) * Size::kTileBytes;
  }
  __device__ uint32_t* words() const { return reinterpret_cast<uint32_t*>(room + kSeenPlace); }

  __device__ void copy_owned(int which, const View& from, int64_t pitch) const {
    copy_tall<Size, kTallRows>(a, at, from, pitch, a.tq, i0, owned(which));
  }
  __device__ void copy_tile(int number, int stage) const {
    if (number < end) {
      int first = number * kTallTile;
      copy_tall<Size, kTallTile>(a, at, a.k, a.pitch, a.tk, first, tile(stage, 0));
      copy_tall<Size, kTallTile>(a, at, a.v, a.pitch, a.tk, first, tile(stage, 1));
    }
    commit_copies();
  }
  // Where there is a mask: a bit for each key that it shows.
  __device__ void find_seen() const {
    int lane = lane_of_warp();
    for (int word = warp_of_block(); word < 2 * end; word += kTallThreads / 32) {
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
    wait_for_copies();
    return first;
  }
  // visit(number, stage) for all tiles that the group of warps has, from `first` on.
  template <class Visit>
  __device__ void for_each_tile(int first, Visit visit) const {
    int stage = 0, beyond = (warp_i / kGroupRows + 1) * kGroupRows;
    for (int number = first; number < end; stage ^= 1) {
      int then = next(number + 1);
      copy_tile(then, stage ^ 1);
      if (!a.causal || number * kTallTile < beyond) visit(number, stage);
      wait_for_copies();
      number = then;
    }
  }
  __device__ void hide(int number, TallScores& scores, TallScores* others = nullptr) const {
    int last = a.causal ? warp_i - number * kTallTile : kTallTile;
    hide_scores(seen(number), last, scores, others);
  }
};

}  // namespace sigma1::cuda
