// What the two launches of attention_grad by tall tiles share; see attention_tall.cuh.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_grad_mma.cuh"
#include "sigma1/backend/cuda/attention_tall.cuh"

namespace sigma1::cuda {

// Gradients of logits of fp16 could leave its range.
template <class Size>
constexpr bool kNeedsPower = std::is_same_v<typename Size::Element, __half>;

// Workspace: by query, `shifts` (what takes a logit in units of log 2 to the logarithm of its
// probability times 2^14; −∞ for queries that see nothing or do not exist) and `means` (Σ p·dp); by
// warp's rows of queries a bound of |dp − mean|. Heads begin at multiples of kTallRows queries.
struct TallRooms {
  float *shifts, *means, *bounds;
  int rows;       // of a head
  int64_t bytes;  // of all

  TallRooms(const Attention& a, std::byte* workspace);
};

// Dot products of a tile: logits, without the temperature, and gradients of probabilities.
struct TallDots {
  TallScores scores, dscores;
};

// Whether registers hold the dots of two tiles. At 128 numbers a head, sums alone take half of
// them.
template <class Size>
constexpr bool kGoesAhead = Size::kHead <= 64;

// Of tiles in shared memory: one is in use, sums over the one before have not ended, the dots of
// the next are under way, and the one behind that is copied.
inline constexpr int kTallSlots = 4;

// Where a group of warps is among its block's tiles.
struct TallPlace {
  int number, slot = 0, slot_before = 0;
  __device__ int slot_ahead(int by) const { return (slot + by) % kTallSlots; }
};

// Begins to copy the tiles that add_tiles needs first.
template <class Block>
__device__ void copy_first_tiles(const Block& block, int number) {
  block.copy_tile(number, 0);
  block.copy_tile(block.next(number + 1), 1);
}

// Goes through a block's tiles from `number` on, once copy_first_tiles has begun. The group of
// warps has those in [first, end): all of them, all but the first or the last, or none.
//
// Tensor cores work while a group does the arithmetic of a tile: on the second half of sums over
// the tile before, on the dots of the next, and on the first half of this tile's sums. Dots that
// are under way must not move, so that there are two sets of them, and tiles take either in turn.
// No product goes on from one tile's code to the next's: the compiler (13.0) would wait for each.
//
// Block::start begins a tile's dots. Block::add_tile does all else for a tile, but Block::add_rest,
// the second half of its sums, which it begins for the tile before; it waits for the next tile's
// dots, behind the last one of whatever is there. It calls `turn` when the tile before is done
// with.
template <class Size, class Block>
__device__ void add_tiles(Block& block, int number, int first, int end) {
  TallPlace at{number};
  auto behind = [&](int tile) { return block.next(tile + 1); };
  int copied = behind(number);  // the last that is, or is being
  wait_for_copies();
  copied = behind(copied);
  block.copy_tile(copied, 2);
  auto turn = [&] {
    if (copied >= block.end) return;
    wait_for_copies();
    copied = behind(copied);
    block.copy_tile(copied, at.slot_ahead(3));
  };
  auto go_on = [&] { at = {behind(at.number), at.slot_ahead(1), at.slot}; };
  for (; at.number < min(first, block.end); go_on()) turn();
  at.slot_before = at.slot;  // there is none: weights of zero, for a tile that is there
  if constexpr (!kGoesAhead<Size>) {
    for (; at.number < end; go_on()) {
      TallDots dots = block.start(at.slot);
      block.add_tile(at, turn, dots);
    }
  } else if (at.number < end) {
    TallDots even = block.start(at.slot), odd;
    wait_products<0>(even.scores);
    wait_products<0>(even.dscores);
    for (;;) {
      block.add_tile(at, turn, even, &odd);
      go_on();
      if (at.number >= end) break;
      block.add_tile(at, turn, odd, &even);
      go_on();
      if (at.number >= end) break;
    }
    block.add_rest(at.slot_before);
    block.wait();
  }
  __syncthreads();
}

// A gradient that is a tensor, or a part of another's rows.
struct TallGradient {
  View to;
  float factor;
  int64_t pitch;  // numbers from one vector to the next

  TallGradient(const Launch& launch, size_t output, float by)
      : to(view_of(launch.out(output))),
        factor(by * launch.factor(output)),
        pitch(launch.out(output).pitch > 0 ? launch.out(output).pitch
                                           : launch.out(output).shape.back()) {}
};

// dk and dv, once the rooms are filled.
void run_tall_keys(const Attention& a, const TallRooms& rooms, const TallGradient& dk,
                   const TallGradient& dv);

// All three where a block has room for a whole head, without a workspace; see
// attention_tall_whole.cu.
bool uses_whole(const Attention& a);
void run_attention_grad_whole(const Launch& launch);

}  // namespace sigma1::cuda
