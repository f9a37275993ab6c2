// Attention in a cluster chain: a block has one head, of all of the cluster's rows, and keys,
// values and distances of the sample in shared memory. Warps that share columns of the result
// share a row's keys first; then its softmax's weights are in shared memory for all of them. See
// cluster_block.cuh for who includes this.
#pragma once

#include "sigma1/backend/cuda/cluster_steps.cuh"

namespace sigma1::cuda {

inline constexpr int kNoDistances = -1;

// Products of a warp's 16 queries with 16 rows; `row` is the one that a lane names.
template <class Element, int kHead>
__device__ void add_dots(const KeptTerms<kHead>& queries, uint32_t row, float (&first)[4],
                         float (&second)[4]) {
#pragma unroll
  for (int k = 0; k < kHead; k += 16) {
    uint32_t a[4], b[4];
    queries.get(a, k);
    load_matrix_x4(b, row + 2 * k);
    mma_16x8x16<Element>(first, a, {b[0], b[1]});
    mma_16x8x16<Element>(second, a, {b[2], b[3]});
  }
}

// Of a warp's 16 queries: from place kQueries on the block's columns of q, then of k, v and
// distances in places of their own, and room.
template <class PlaceOf, int kTime, bool kCausal, int kQueries, int kKeys, int kValues,
          int kDistances, int kRoom, int kLargest, int kSums>
struct Attending {
  using Place = PlaceOf;
  using Block = typename Place::OfBlock;
  using Element = typename Block::Element;
  static constexpr int kHead = Place::kSlice, kStride = padded(kHead);
  static constexpr int kWarps = Block::kColumnWarps;  // that share the keys, 16 at a time
  static constexpr int kRuns = (kTime / 16 + kWarps - 1) / kWarps;
  static constexpr int kWeightsStride = padded(kTime);
  using Scores = float[kRuns][2][4];

  const Place& place;
  const Block& block = place.block;
  int lane = block.lane, quad = lane / 4;
  int first_query = block.template time<kTime>() + block.part * 16;
  int seen = kCausal ? first_query + 16 : kTime;

  __device__ int first_key(int run) const { return 16 * (run * kWarps + block.group); }

  // The row that this lane names, of 16 from `first` on; what would be of others is not used.
  __device__ uint32_t named_row(int from, int first) const {
    int row = first + lane / 16 * 8 + lane % 8;
    row = row < 0 ? 0 : row < kTime ? row : kTime - 1;
    return block.shared + from + 2 * (row * kStride + lane / 8 % 2 * 8);
  }

  // Products with distances, first laid out by distance, where (query, key) finds its own; 8
  // queries at a time.
  __device__ void add_by_distance(const KeptTerms<kHead>& queries, int key,
                                  float (&scores)[2][4]) const {
    constexpr int kFarthest = 15;  // a query behind another, and as far a key
    float products[4][4] = {};
    int least = first_query - key - kFarthest;
    add_dots<Element>(queries, named_row(kDistances, least), products[0], products[1]);
    add_dots<Element>(queries, named_row(kDistances, least + 16), products[2], products[3]);
    uint32_t row = block.shared + kRoom + 4 * ((block.warp * 8 + quad) * kSkewStride);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      __syncwarp();
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const float* two = &products[t][2 * half];
        store_8(row + 4 * (8 * t + lane % 4 * 2),
                {__float_as_uint(two[0]), __float_as_uint(two[1])});
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        int at = i / 2 * 8 + lane % 4 * 2 + i % 2, distance = quad + 8 * half - at + kFarthest;
        scores[i / 2][2 * half + i % 2] += __uint_as_float(load_4(row + 4 * distance));
      }
    }
  }

  // Logits in units of log 2; what is not seen is −∞.
  __device__ void score(const KeptTerms<kHead>& queries, int key, float temperature,
                        float (&scores)[2][4]) const {
    const float unseen = __uint_as_float(0xFF800000);
    add_dots<Element>(queries, named_row(kKeys, key), scores[0], scores[1]);
    if constexpr (kDistances != kNoDistances) add_by_distance(queries, key, scores);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float& logit = scores[i / 4][i % 4];
      logit *= temperature;
      int behind = key + i / 4 * 8 + lane % 4 * 2 + i % 2 - first_query - quad - i % 4 / 2 * 8;
      if (kCausal && behind > 0) logit = unseen;
    }
  }

  // What each warp has found of a row, all the warps' for a row of this lane.
  __device__ uint32_t stat(int from, int half) const {
    return block.shared + from + 4 * ((block.part * 16 + 8 * half + quad) * kWarps);
  }
  __device__ void keep(int from, int half, float value) const {
    if (lane % 4 == 0) store_4(stat(from, half) + 4 * block.group, __float_as_uint(value));
  }
  template <class Take>
  __device__ void for_stats(int from, int half, Take take) const {
#pragma unroll
    for (int i = 0; i < kWarps; i += 4) {
      uint4 four = load_16(stat(from, half) + 4 * i);
      take(__uint_as_float(four.x)), take(__uint_as_float(four.y));
      take(__uint_as_float(four.z)), take(__uint_as_float(four.w));
    }
  }

  __device__ void keep_largest(const Scores& scores) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = scores[0][0][2 * half];
#pragma unroll
      for (int i = 0; i < 4 * kRuns; ++i) {
        most = fmaxf(most, scores[i / 4][i / 2 % 2][2 * half + i % 2]);
      }
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
      keep(kLargest, half, fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2)));
    }
  }
  // Logits become weights, and what all warps multiply values with.
  __device__ void keep_weights(Scores& scores) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = __uint_as_float(0xFF800000), sum = 0;
      for_stats(kLargest, half, [&](float each) { most = fmaxf(most, each); });
#pragma unroll
      for (int i = 0; i < 4 * kRuns; ++i) {
        float& score = scores[i / 4][i / 2 % 2][2 * half + i % 2];
        sum += score = fast_exp2(score - most);
      }
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      keep(kSums, half, sum + __shfl_xor_sync(0xffffffff, sum, 2));
    }
    uint32_t row = weights_row();
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      if (first_key(r) >= seen) continue;
      uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* two = &scores[r][i / 2][i % 2 * 2];
        pairs[i] = packed<Element>(two[0], two[1]);
      }
      store_matrix_x4(row + 2 * first_key(r), pairs);
    }
  }
  __device__ uint32_t weights_row() const {
    int row = block.part * 16 + lane % 16;
    return block.shared + kRoom + 2 * (row * kWeightsStride + lane / 16 * 8);
  }

  __device__ typename Place::Numbers results() const {
    auto values = weights<false, kValues, kStride>(place);
    uint32_t row = weights_row();
    float sums[2][Place::kTiles][4] = {};
    auto add = [&](int key, float(&to)[Place::kTiles][4]) {
      uint32_t a[4];
      load_matrix_x4(a, row + 2 * key);
      add_products(place, a, values, key, to);
    };
#pragma unroll 2
    for (int key = 0; key < seen; key += 32) {
      add(key, sums[0]);
      if (key + 16 < seen) add(key + 16, sums[1]);
    }
    float shares[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = 0;
      for_stats(kSums, half, [&](float each) { sum += each; });
      shares[half] = 1 / sum;
    }
    typename Place::Numbers result;
#pragma unroll
    for (int i = 0; i < Place::Numbers::kNumbers; ++i) {
      result.at[i] = (sums[0][i / 4][i % 4] + sums[1][i / 4][i % 4]) * shares[i % 4 / 2];
    }
    return result;
  }

  __device__ typename Place::Numbers run(float temperature) const {
    auto queries = keep_terms<Block, kQueries, kStride, kHead>(block);
    Scores scores;
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      bool sees = first_key(r) < seen;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        scores[r][i / 4][i % 4] = sees ? 0 : __uint_as_float(0xFF800000);
      }
      if (sees) score(queries, first_key(r), temperature, scores[r]);
    }
    keep_largest(scores);
    __syncthreads();
    keep_weights(scores);
    __syncthreads();
    return results();
  }
};

}  // namespace sigma1::cuda
