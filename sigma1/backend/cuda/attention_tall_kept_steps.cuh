// The way of a block through the queries and keys of a head: see attention_tall_kept.cu. Private to
// this folder.
#pragma once

#include "sigma1/backend/cuda/attention_tall.cuh"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {

// What a block does with a span of 128 queries and as many keys.
struct Step {
  int keys;       // number of the tile
  int following;  // of the next tile that has a key to be seen
  int room;       // where the tile lies
  int turn;       // steps with these keys so far
  int span;
  bool forward;   // through spans
  bool exists;    // or there are no more
  bool adds;      // to what other keys have given to dq
  bool is_last;   // to add to dq of its queries
  bool ends;      // is the last with its keys
  bool sees_all;  // every query every key
};

// Steps are in shared memory, where they take no registers: one thread finds each, two steps before
// it is the next.
struct KeptSteps {
  static constexpr unsigned kKnown = 8;  // steps: the last, this one and three more are needed
  static constexpr int kKeyRooms = 3;
  static constexpr int kSeenPlace = kKnown * static_cast<int>(sizeof(Step));

  const Attention& a;
  std::byte* room;
  int spans, key_tiles;
  unsigned count = 0;  // of steps before this one

  // Bytes of shared memory. Bits of keys are there where a mask may hide some.
  static int bytes(const Attention& of) {
    int64_t words = of.has_mask ? ceil_div(of.tk, kTallRows) * (kTallRows / 32) : 0;
    return kSeenPlace + 4 * static_cast<int>(words);
  }
  __device__ KeptSteps(const Attention& of, int rows, std::byte* shared)
      : a(of),
        room(shared),
        spans(rows / kTallRows),
        key_tiles(static_cast<int>((of.tk + kTallRows - 1) / kTallRows)) {}

  // A bit for each of 64 keys that any query may see.
  __device__ uint64_t seen(int number) const {
    if (a.has_mask) return reinterpret_cast<const uint64_t*>(room + kSeenPlace)[number];
    int left = static_cast<int>(a.tk) - number * kTallTile;
    if (left >= kTallTile) return ~uint64_t{0};
    return left <= 0 ? 0 : (uint64_t{1} << left) - 1;
  }
  // Where there is a mask.
  __device__ void find_seen(int batch) const {
    auto* words = reinterpret_cast<uint32_t*>(room + kSeenPlace);
    for (int word = warp_of_block(); word < key_tiles * (kTallRows / 32);
         word += kTallThreads / 32) {
      int key = word * 32 + lane_of_warp();
      bool shows = key < a.tk && load(a.mask, batch * a.tk + key) > 0;
      unsigned bits = __ballot_sync(~0U, shows);
      if (lane_of_warp() == 0) words[word] = bits;
    }
    __syncthreads();
  }
  // The first tile of keys from `number` on that has one to be seen.
  __device__ int next_seen(int number) const {
    while (number < key_tiles && (seen(2 * number) | seen(2 * number + 1)) == 0) ++number;
    return number;
  }

  __device__ const Step& last() const { return at(kKnown - 1); }
  __device__ const Step& now() const { return at(0); }
  __device__ const Step& ahead(unsigned number) const { return at(number); }

  // The first steps; before them there is nothing to be stored.
  __device__ void begin() {
    count = 0;
    if (threadIdx.x == 0) {
      int first = next_seen(0);
      at(0) = made(first, next_seen(first + 1), 0, 0, true, false);
      at(1) = after(at(0));
      at(2) = after(at(1));
      at(kKnown - 1) = {};
    }
    __syncthreads();
  }
  // One more, for others once the block is synchronised.
  __device__ void find_another() const {
    if (threadIdx.x == 0) at(3) = after(at(2));
  }

 private:
  __device__ Step& at(unsigned number) const {
    return reinterpret_cast<Step*>(room)[(count + number) % kKnown];
  }
  __device__ Step made(int keys, int following, int place, int turn, bool forward,
                       bool adds) const {
    int first = a.causal ? keys : 0, span = forward ? first + turn : spans - 1 - turn;
    bool is_last = following >= (a.causal ? span + 1 : key_tiles);
    bool exists = keys < key_tiles, ends = first + turn + 1 >= spans;
    bool sees_all = (!a.causal || span > keys) && exists &&
                    (seen(2 * keys) & seen(2 * keys + 1)) == ~uint64_t{0};
    return {keys, following, place, turn, span, forward, exists, adds, is_last, ends, sees_all};
  }
  __device__ Step after(const Step& step) const {
    if (!step.ends) {
      return made(step.keys, step.following, step.room, step.turn + 1, step.forward, step.adds);
    }
    int place = step.room + 1 < kKeyRooms ? step.room + 1 : 0;
    return made(step.following, next_seen(step.following + 1), place, 0, !step.forward, true);
  }
};

}  // namespace sigma1::cuda
