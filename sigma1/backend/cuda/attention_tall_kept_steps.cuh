// The way of a block through the queries and keys of a head, or of a part of it: see
// attention_tall_kept.cu. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_tall_kept_shares.cuh"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {

// What every thread asks in every step, in one word that it keeps.
struct StepFacts {
  static constexpr uint32_t kExists = 4;     // or there are no more
  static constexpr uint32_t kBegins = 8;     // is the first with its keys
  static constexpr uint32_t kEnds = 16;      // is the last with its keys
  static constexpr uint32_t kAdds = 32;      // to what other keys have given to dq
  static constexpr uint32_t kIsLast = 64;    // of this block's with its queries: dq is to be stored
  static constexpr uint32_t kSeesAll = 128;  // every query every key
  static constexpr int kSpanPlace = 8;

  uint32_t word;

  __device__ bool has(uint32_t fact) const { return (word & fact) != 0; }
  __device__ int room() const { return static_cast<int>(word % kExists); }  // where its keys lie
  __device__ int span() const { return static_cast<int>(word >> kSpanPlace); }
};

// What a block does with a span of 128 queries and as many keys.
struct KeptStep {
  StepFacts facts;
  int keys;       // number of the tile
  int following;  // of the next tile that has a key to be seen
  int turn;       // steps with these keys so far
  int end;        // of the part's tiles, and
  bool stores;    // whether it stores dq: part() would be asked too late for good code
  bool forward;   // through spans
};

// Nearly all is in shared memory, where it takes no registers: one thread finds each step, two
// steps before it is the next.
struct KeptSteps {
  static constexpr unsigned kKnown = 8;  // steps: the last, this one and three more are needed
  static constexpr int kKeyRooms = 3;
  static_assert(kKeyRooms <= StepFacts::kExists);
  static constexpr int kPartPlace = kKnown * static_cast<int>(sizeof(KeptStep));
  static constexpr int kSeenPlace = kPartPlace + (static_cast<int>(sizeof(HeadPart)) + 7) / 8 * 8;

  const Attention& a;
  const KeptRooms& rooms;
  std::byte* room;
  unsigned count = 0;  // of steps before this one
  StepFacts last{}, now{};

  // Bytes of shared memory. Bits of keys are there where a mask may hide some.
  static int bytes(const Attention& of) {
    int64_t words = of.has_mask ? ceil_div(of.tk, kTallRows) * (kTallRows / 32) : 0;
    return kSeenPlace + 4 * static_cast<int>(words);
  }
  __device__ KeptSteps(const Attention& of, const KeptRooms& from, std::byte* shared)
      : a(of), rooms(from), room(shared) {}

  __device__ int spans() const { return rooms.rows / kTallRows; }
  __device__ HeadPart& part() const { return *reinterpret_cast<HeadPart*>(room + kPartPlace); }
  // The part with this number, if there is one; synchronises the block.
  __device__ bool find_part(int number) const {
    __syncthreads();  // nobody needs the last one any more
    if (threadIdx.x == 0) part() = KeptShares(a, rooms).part(number);
    __syncthreads();
    return part().exists;
  }

  // A bit for each of 64 keys that any query may see.
  __device__ uint64_t seen(int number) const {
    if (a.has_mask) return reinterpret_cast<const uint64_t*>(room + kSeenPlace)[number];
    int left = static_cast<int>(a.tk) - number * kTallTile;
    if (left >= kTallTile) return ~uint64_t{0};
    return left <= 0 ? 0 : (uint64_t{1} << left) - 1;
  }
  // Where there is a mask; then heads are not cut.
  __device__ void find_seen(int batch) const {
    auto* words = reinterpret_cast<uint32_t*>(room + kSeenPlace);
    for (int word = warp_of_block(); word < part().end * (kTallRows / 32);
         word += kTallThreads / 32) {
      int key = word * 32 + lane_of_warp();
      bool shows = key < a.tk && load(a.mask, batch * a.tk + key) > 0;
      unsigned bits = __ballot_sync(~0U, shows);
      if (lane_of_warp() == 0) words[word] = bits;
    }
    __syncthreads();
  }
  // The first tile of keys from `number` on that has one to be seen.
  __device__ int next_seen(int number, int end) const {
    while (number < end && (seen(2 * number) | seen(2 * number + 1)) == 0) ++number;
    return number;
  }
  __device__ int first_seen() const { return next_seen(part().begin, part().end); }
  __device__ bool has_keys() const { return first_seen() < part().end; }

  // Of the step that is now, of later ones, and of the last one.
  __device__ const KeptStep& ahead(unsigned number) const { return at(number); }
  __device__ const KeptStep& before() const { return at(kKnown - 1); }
  // All lanes of a warp agree on it, which the compiler would not know.
  __device__ __forceinline__ StepFacts facts_ahead(unsigned number) const {
    return {__shfl_sync(~0U, at(number).facts.word, 0)};
  }

  // The first steps; before them there is nothing to be stored.
  __device__ void find_first() {
    count = 0;
    if (threadIdx.x == 0) {
      int first = first_seen(), end = part().end;
      at(0) = made(first, next_seen(first + 1, end), 0, 0, true, false, end, !part().is_late());
      at(1) = after(at(0));
      at(2) = after(at(1));
      at(kKnown - 1) = {};
    }
    __syncthreads();
    last = {};
    now = facts_ahead(0);
  }
  // One more, for others once the block is synchronised.
  __device__ void find_another() const {
    if (threadIdx.x == 0) at(3) = after(at(2));
    __syncwarp();  // all lanes start products together
  }
  __device__ void advance(StepFacts next) {
    last = now;
    now = next;
    ++count;
  }

 private:
  __device__ KeptStep& at(unsigned number) const {
    return reinterpret_cast<KeptStep*>(room)[(count + number) % kKnown];
  }
  __device__ KeptStep made(int keys, int following, int place, int turn, bool forward, bool adds,
                           int end, bool stores) const {
    int first = a.causal ? keys : 0, span = forward ? first + turn : spans() - 1 - turn;
    int behind = a.causal ? min(span + 1, end) : end;  // the last tile that the span sees
    bool exists = keys < end;
    bool sees_all = (!a.causal || span > keys) && exists &&
                    (seen(2 * keys) & seen(2 * keys + 1)) == ~uint64_t{0};
    uint32_t word = static_cast<unsigned>(place | span << StepFacts::kSpanPlace);
    auto note = [&](bool holds, uint32_t fact) { word |= holds ? fact : 0; };
    note(exists, StepFacts::kExists);
    note(turn == 0, StepFacts::kBegins);
    note(first + turn + 1 >= spans(), StepFacts::kEnds);
    note(adds, StepFacts::kAdds);
    note(stores && following >= behind, StepFacts::kIsLast);
    note(sees_all, StepFacts::kSeesAll);
    return {{word}, keys, following, turn, end, stores, forward};
  }
  __device__ KeptStep after(const KeptStep& step) const {
    StepFacts facts = step.facts;
    if (!facts.has(StepFacts::kEnds)) {
      return made(step.keys, step.following, facts.room(), step.turn + 1, step.forward,
                  facts.has(StepFacts::kAdds), step.end, step.stores);
    }
    int place = facts.room() + 1 < kKeyRooms ? facts.room() + 1 : 0;
    return made(step.following, next_seen(step.following + 1, step.end), place, 0, !step.forward,
                true, step.end, step.stores);
  }
};

}  // namespace sigma1::cuda
