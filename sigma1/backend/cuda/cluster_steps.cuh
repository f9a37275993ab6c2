// The steps of a cluster chain: products and norms; pointwise ops stand in its source. See
// cluster_block.cuh for who includes this.
#pragma once

#include "sigma1/backend/cuda/activations.cuh"
#include "sigma1/backend/cuda/cluster_copies.cuh"
#include "sigma1/backend/cuda/cluster_numbers.cuh"

namespace sigma1::cuda {

// The left factors of a warp's 16 rows: kept in registers, or read from where they lie each time.
template <int kDepth>
struct KeptTerms {
  uint32_t at[kDepth / 16][4];
  __device__ void get(uint32_t (&to)[4], int term) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = at[term / 16][i];
  }
};
struct ReadTerms {
  uint32_t row;
  __device__ void get(uint32_t (&to)[4], int term) const { load_matrix_x4(to, row + 2 * term); }
};

template <class Block, int kFrom, int kStride>
__device__ ReadTerms read_terms(const Block& block) {
  int row = block.part * 16 + block.lane % 16;
  return {block.shared + kFrom + 2 * (row * kStride + block.lane / 16 * 8)};
}
template <class Block, int kFrom, int kStride, int kDepth>
__device__ KeptTerms<kDepth> keep_terms(const Block& block) {
  ReadTerms terms = read_terms<Block, kFrom, kStride>(block);
  KeptTerms<kDepth> result;
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) terms.get(result.at[k / 16], k);
  return result;
}

// Where a lane finds its row of the weights of 16 terms, of a tile and the next: rows of terms, or
// of columns where they are transposed.
template <bool kIsTransposed, int kStride>
struct Weights {
  static constexpr bool kTransposed = kIsTransposed;
  uint32_t first;

  __device__ uint32_t row(int term, int tile) const {
    return first + 2 * (kTransposed ? 8 * tile * kStride + term : term * kStride + 8 * tile);
  }
};
template <bool kTransposed, int kFrom, int kStride, class Place>
__device__ Weights<kTransposed, kStride> weights(const Place& place) {
  int lane = place.block.lane;
  int term = kTransposed ? lane / 8 % 2 * 8 : lane % 16;
  int column = place.in_slice() + lane / 16 * 8 + (kTransposed ? lane % 8 : 0);
  int element = kTransposed ? column * kStride + term : term * kStride + column;
  return {place.block.shared + kFrom + 2 * element};
}

// Products of 16 terms of the warp's rows, from `term` on.
template <class Place, class Weights>
__device__ void add_products(const Place& place, const uint32_t (&left)[4], const Weights& weights,
                             int term, float (&sums)[Place::kTiles][4]) {
  using Element = typename Place::OfBlock::Element;
#pragma unroll
  for (int t = 0; t < Place::kTiles; t += 2) {
    if (t > 0 && !place.exists(t)) continue;
    uint32_t row = weights.row(term, t);
    uint32_t b[4];
    if (!place.exists(t + 1)) {
      uint32_t(&two)[2] = reinterpret_cast<uint32_t(&)[2]>(b);
      Weights::kTransposed ? load_matrix_x2(two, row) : load_matrix_x2_transposed(two, row);
    } else {
      Weights::kTransposed ? load_matrix_x4(b, row) : load_matrix_x4_transposed(b, row);
      if (t + 1 < Place::kTiles) mma_16x8x16<Element>(sums[t + 1], left, {b[2], b[3]});
    }
    mma_16x8x16<Element>(sums[t], left, {b[0], b[1]});
  }
}

// The warp's sums over all kDepth terms.
template <int kDepth, class Place, class Terms, class Weights>
__device__ typename Place::Numbers multiply(const Place& place, const Terms& terms,
                                            const Weights& weights) {
  // Of few tiles every other 16 terms have a sum of their own: one need not wait for the other.
  constexpr int kTiles = Place::kTiles, kSums = kTiles < 4 ? 2 : 1;
  float sums[kSums][kTiles][4] = {};
  if (place.exists(0)) {
    constexpr int kAtOnce = kDepth <= 256 ? kDepth / 16 : 8;
#pragma unroll kAtOnce
    for (int k = 0; k < kDepth; k += 16) {
      uint32_t a[4];
      terms.get(a, k);
      add_products(place, a, weights, k, sums[k / 16 % kSums]);
    }
  }
  typename Place::Numbers result;
#pragma unroll
  for (int i = 0; i < 4 * kTiles; ++i) {
    result.at[i] = sums[0][i / 4][i % 4];
    if constexpr (kSums == 2) result.at[i] += sums[1][i / 4][i % 4];
  }
  return result;
}

template <int kCount>
__device__ void scale(Floats<kCount>& x, float factor) {
#pragma unroll
  for (float& each : x.at) each *= factor;
}

template <class From, int kBias, class Place>
__device__ void add_to_columns(const Place& place, typename Place::Numbers& x) {
#pragma unroll
  for (int t = 0; t < Place::kTiles; ++t) {
    if (!place.exists(t)) continue;
    int column = place.column() + 8 * t + place.block.lane % 4 * 2;
    Floats<2> two = read_vector<From, 2>(place.block.shared + kBias, column);
#pragma unroll
    for (int i = 0; i < 4; ++i) x.at[4 * t + i] += two.at[i % 2];
  }
}
template <class From, int kBias, class Place>
__device__ void add_to_rows(const Place& place, typename Place::Numbers& x) {
  typename Place::Numbers bias = place.template vector<From, kBias>();
#pragma unroll
  for (int i = 0; i < Place::Numbers::kNumbers; ++i) x.at[i] += bias.at[i];
}

// A block's share of sums of all columns, over its terms alone, is left at kTo for the blocks that
// have their rows.
template <int kTo, class Place>
__device__ void put_sums(const Place& place, const typename Place::Numbers& sums) {
  const auto& block = place.block;
  int row = block.part * 16 + block.lane / 4;
  int element = row * padded_sums(Place::kWidth) + place.column() + block.lane % 4 * 2;
  uint32_t there = block.shared + kTo + 4 * element;
#pragma unroll
  for (int t = 0; t < Place::kTiles; ++t) {
    if (!place.exists(t)) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* two = &sums.at[4 * t + 2 * half];
      store_8(there + 4 * (half * 8 * padded_sums(Place::kWidth) + 8 * t),
              {__float_as_uint(two[0]), __float_as_uint(two[1])});
    }
  }
}
template <int kExchange, class Block>
__device__ void let_all_read(const Block& block) {
  __syncthreads();
  if (block.thread < Block::kRanks) let_read(kExchange, block.thread);
}

// Adds up what all blocks have left, in their order.
template <int kFrom, class Place>
__device__ typename Place::Numbers sums_of_blocks(const Place& place) {
  constexpr int kRanks = Place::OfBlock::kRanks;
  typename Place::Numbers result{};
#pragma unroll
  for (int q = 0; q < Place::kQuads; ++q) {
    if (!place.exists(q)) continue;
    int element = place.block.row() * padded_sums(Place::kWidth) + place.column(q);
    float4 parts[kRanks];
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) {
      parts[rank] = read_from_block(place.block.shared + kFrom + 4 * element, rank);
    }
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) {
      result.at[4 * q] += parts[rank].x, result.at[4 * q + 1] += parts[rank].y;
      result.at[4 * q + 2] += parts[rank].z, result.at[4 * q + 3] += parts[rank].w;
    }
  }
  return result;
}

// x becomes (x − mean) / scale; gives 1 / scale.
template <bool kCentred, class Place>
__device__ float standardise(const Place& place, typename Place::Numbers& x, float eps) {
  constexpr auto kCount = static_cast<float>(Place::kWidth);
  if constexpr (kCentred) {
    float mean = place.sum([&](int i) { return x.at[i]; }) / kCount;
#pragma unroll
    for (float& each : x.at) each -= mean;
  }
  // Around the mean rather than E[x²] − μ², which loses digits.
  float squares = place.sum([&](int i) { return x.at[i] * x.at[i]; });
  float inverse = 1 / sqrtf(squares / kCount + eps);
#pragma unroll
  for (float& each : x.at) each *= inverse;
  return inverse;
}

template <class Place>
__device__ typename Place::Numbers all_of(const Place&, float value) {
  typename Place::Numbers result;
#pragma unroll
  for (float& each : result.at) each = value;
  return result;
}

// `weights` and `bias` are numbers like x: all of them 1 and 0 where there are none.
template <bool kCentred, class Place>
__device__ typename Place::Numbers normalise(const Place& place, typename Place::Numbers x,
                                             const typename Place::Numbers& weights,
                                             const typename Place::Numbers& bias, float factor,
                                             float eps) {
  standardise<kCentred>(place, x, eps);
#pragma unroll
  for (int i = 0; i < Place::Numbers::kNumbers; ++i) {
    x.at[i] = (x.at[i] * weights.at[i] + bias.at[i]) * factor;
  }
  return x;
}

// With respect to the rows alone; what weights and bias get is summed over all rows, elsewhere.
template <bool kCentred, class Place>
__device__ typename Place::Numbers normalise_grad(const Place& place, typename Place::Numbers x,
                                                  const typename Place::Numbers& weights,
                                                  typename Place::Numbers dy, float factor,
                                                  float eps) {
  constexpr auto kCount = static_cast<float>(Place::kWidth);
#pragma unroll
  for (int i = 0; i < Place::Numbers::kNumbers; ++i) dy.at[i] *= weights.at[i];
  float inverse = standardise<kCentred>(place, x, eps), mean = 0;
  if constexpr (kCentred) mean = place.sum([&](int i) { return dy.at[i]; }) / kCount;
  float along = place.sum([&](int i) { return dy.at[i] * x.at[i]; }) / kCount;
#pragma unroll
  for (int i = 0; i < Place::Numbers::kNumbers; ++i) {
    dy.at[i] = factor * inverse * (dy.at[i] - mean - x.at[i] * along);
  }
  return dy;
}

}  // namespace sigma1::cuda
