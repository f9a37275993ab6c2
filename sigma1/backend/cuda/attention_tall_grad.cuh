// What the two launches of attention_grad by tall tiles share; see attention_tall.cuh.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_grad_mma.cuh"
#include "sigma1/backend/cuda/attention_tall.cuh"

namespace sigma1::cuda {

// Two results for each row, and two kinds of scores: fewer rows of long ones.
template <class Number, int kNumbers>
using GradSize = TallSize<Number, kNumbers, kNumbers <= 64 ? 32 : 16, 32>;

template <class Size>
constexpr int kGradBlocksOfSm = Size::kHead <= 64 ? 2 : 1;

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

// dk and dv, once the rooms are filled.
void run_tall_keys(const Attention& a, const TallRooms& rooms, const Gradient& dk,
                   const Gradient& dv);

}  // namespace sigma1::cuda
