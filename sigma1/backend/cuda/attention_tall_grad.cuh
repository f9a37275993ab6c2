// What the two launches of attention_grad by tall tiles share; see attention_tall.cuh.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_grad_mma.cuh"
#include "sigma1/backend/cuda/attention_tall.cuh"

namespace sigma1::cuda {

// Gradients of logits of fp16 could leave its range.
template <class Size>
constexpr bool kNeedsPower = std::is_same_v<typename Size::Element, __half>;

// What packed() made of two numbers, as fp32.
__device__ inline float2 unpacked(uint32_t bits, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&bits));
}
__device__ inline float2 unpacked(uint32_t bits, __nv_bfloat16) {
  return make_float2(__int_as_float(static_cast<int>(bits << 16)),
                     __int_as_float(static_cast<int>(bits & 0xFFFF0000U)));
}

// Numbers of a row are pairs: of tile t, and of the lane's first or second row.
template <class Size>
__device__ uint32_t& pair_of(TallWeights<Size>& weights, int t, int half) {
  return weights.at[t / 2][t % 2 * 2 + half];
}

// Workspace: by query, `shifts` (what takes a logit in units of log 2 to the logarithm of its
// probability times 2^14; −∞ for queries that see nothing or do not exist) and `means` (Σ p·dp); by
// warp's rows of queries a bound of |dp − mean|. Heads begin at multiples of kTallRows queries.
struct TallRooms {
  float *shifts, *means, *bounds;
  int rows;       // of a head
  int64_t bytes;  // of all

  TallRooms(const Attention& a, std::byte* workspace);
};

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
