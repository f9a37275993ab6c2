// The softmax of 16 rows and its gradient where warps share the keys: each warp finds the numbers
// of its keys, and all put together those of the rows. See attention_mma.cuh. Private to this
// folder.
#pragma once

#include "sigma1/backend/cuda/attention_grad_mma.cuh"

namespace sigma1::cuda {

// Numbers of a row's softmax from one warp's keys.
struct RowStats {
  float largest = -INFINITY;  // logit, in units of log 2
  float sum = 0;              // of the weights 2^(logit − largest)
  float weighted = 0;         // Σ weight·dp
  float bound = 0;            // of |dp|
};

template <int kTiles>
__device__ void add_stats(const Tiles<kTiles>& scores, const Tiles<kTiles>& dweights,
                          RowStats (&rows)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    RowStats& row = rows[half];
    float most = row.largest, sum = 0, weighted = 0;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      most = fmaxf(most, fmaxf(scores[t][2 * half], scores[t][2 * half + 1]));
    }
    most = quad_max(most);
    float reference = finite_largest(most);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int n = 2 * half; n < 2 * half + 2; ++n) {
        float weight = fast_exp2(scores[t][n] - reference);
        sum += weight;
        weighted += weight * dweights[t][n];
        row.bound = fmaxf(row.bound, fabsf(dweights[t][n]));
      }
    }
    float shrink = fast_exp2(row.largest - reference);
    row.sum = row.sum * shrink + quad_sum(sum);
    row.weighted = row.weighted * shrink + quad_sum(weighted);
    row.largest = most;
  }
}

// A warp's numbers of its 16 rows, for all to read.
__device__ inline void keep_stats(const RowStats (&mine)[2], float4* rows) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const RowStats& row = mine[half];
    float bound = quad_max(row.bound);
    if (lane_of_warp() % 4 != 0) continue;
    rows[tile_row(2 * half)] = make_float4(row.largest, row.sum, row.weighted, bound);
  }
}

// From one row's numbers of the first `count` of at most kParts warps, which the four lanes of a
// row share: of_part(part) has them.
template <int kParts, class Of>
__device__ RowGrad row_grad(int count, Of of_part) {
  constexpr int kEach = kParts / 4;
  float4 parts[kEach];
  float largest = -INFINITY, sum = 0, weighted = 0, bound = 0;
#pragma unroll
  for (int p = 0; p < kEach; ++p) {
    int part = tile_pair() * kEach + p;
    parts[p] = part < count ? of_part(part) : make_float4(-INFINITY, 0, 0, 0);
    largest = fmaxf(largest, parts[p].x);
    bound = fmaxf(bound, parts[p].w);
  }
  float reference = finite_largest(quad_max(largest));
#pragma unroll
  for (int p = 0; p < kEach; ++p) {
    float share = fast_exp2(parts[p].x - reference);
    sum += share * parts[p].y;
    weighted += share * parts[p].z;
  }
  sum = quad_sum(sum);
  float inverse = sum == 0 ? 0 : 1 / sum;
  return {reference, inverse, quad_sum(weighted) * inverse, 2 * quad_max(bound)};
}

// The largest of what the lanes of all 16 rows have.
__device__ inline float largest_of_rows(float value) {
#pragma unroll
  for (int lane = 4; lane < 32; lane *= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0U, value, lane));
  }
  return value;
}

// Probabilities times 2^14 take the place of logits, and the gradients of logits times `scale` that
// of those of probabilities.
template <int kTiles>
__device__ void softmax_grad(const RowGrad (&rows)[2], float scale, Tiles<kTiles>& scores,
                             Tiles<kTiles>& dscores) {
  scale *= kOfWeights;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const RowGrad& row = rows[n / 2];
    float inverse = row.inverse_sum / kOfWeights;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      float p = fast_exp2(scores[t][n] - row.largest) * inverse;
      dscores[t][n] = p * ((dscores[t][n] - row.mean) * scale);
      scores[t][n] = p;
    }
  }
}

}  // namespace sigma1::cuda
