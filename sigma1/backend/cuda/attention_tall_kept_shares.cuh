// How heads are shared out among blocks: see attention_tall_kept.cu. Private to this folder.
//
// Each block has as many steps as any other, of heads in their order. So a head may be cut: its
// first tiles of keys are the last that one block comes to, its later ones the first of the next
// block, or of the next two. Those sum up dq in a place of their own, and whoever has the first
// tiles adds that: it will have been there for long.
#pragma once

#include "sigma1/backend/cuda/attention_tall_kept.cuh"
#include "sigma1/backend/cuda/block_signals.cuh"

namespace sigma1::cuda {

struct HeadPlace {
  int pair, tile;  // of keys

  bool operator==(const HeadPlace&) const = default;
};

// Tiles of keys of one head, that a block has.
struct HeadPart {
  static constexpr int kNone = 1 << 30;

  int pair, begin, end;
  bool exists;
  int others[KeptRooms::kMostOthers];  // the first tile of blocks that have what follows, or kNone

  __device__ bool is_late() const { return begin > 0; }  // another block adds what it gives to dq
};

struct KeptShares {
  const Attention& a;
  const KeptRooms& rooms;
  int spans, key_tiles;

  __device__ KeptShares(const Attention& of, const KeptRooms& from)
      : a(of),
        rooms(from),
        spans(from.rows / kTallRows),
        key_tiles(static_cast<int>((of.tk + kTallRows - 1) / kTallRows)) {}

  __device__ int steps_of(int tile) const { return a.causal ? spans - tile : spans; }
  __device__ HeadPlace start(int block) const {
    int64_t pairs = a.batch * a.heads;
    if (!rooms.cuts) return {static_cast<int>(pairs * block / rooms.blocks), 0};
    int64_t of_head = a.causal ? int64_t{spans} * (spans + 1) / 2 : int64_t{spans} * key_tiles;
    int64_t at = pairs * of_head * block / rooms.blocks, left = at % of_head;
    int pair = static_cast<int>(at / of_head), tile = 0;
    for (; left > 0; ++tile) left -= steps_of(tile);
    if (tile < key_tiles) return {pair, tile};
    return {pair + 1, 0};
  }
  // The one with this number of those that the block has.
  __device__ HeadPart part(int number) const {
    auto block = static_cast<int>(blockIdx.x);
    HeadPlace first = start(block), behind = start(block + 1);
    HeadPart part{};
    part.pair = first.pair + number;
    part.begin = number == 0 ? first.tile : 0;
    part.end = part.pair == behind.pair ? behind.tile : key_tiles;
    part.exists = part.pair <= behind.pair && part.begin < part.end;
    find_others(block, part);
    return part;
  }

 private:
  __device__ void find_others(int block, HeadPart& part) const {
#pragma unroll
    for (int n = 0; n < KeptRooms::kMostOthers; ++n) {
      part.others[n] = HeadPart::kNone;
      if (part.is_late() || part.end == key_tiles || block + 1 + n >= rooms.blocks) continue;
      HeadPlace from = start(block + 1 + n);
      if (from.pair != part.pair || from == start(block + 2 + n)) continue;
      part.others[n] = a.causal ? from.tile : 0;
    }
  }
};

}  // namespace sigma1::cuda
