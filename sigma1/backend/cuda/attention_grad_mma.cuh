// What the launches of attention's gradient by tensor cores share. See attention_mma.cuh.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_mma.cuh"

namespace sigma1::cuda {

// Of a row's softmax, as the gradients that are summed over queries need it.
struct alignas(16) RowGrad {
  float largest, inverse_sum, mean;  // logit in units of log 2; mean: Σ p·dp
  float bound;                       // of |dp − mean|
};

// A power of two that brings numbers below `bound` below 2^14, and its inverse.
struct Power {
  static constexpr int kExponent = 14;
  float scale = 1, inverse = 1;

  __device__ explicit Power(float bound) {
    constexpr int kLargest = 100, kBias = 127, kBits = 23;
    if (!(bound > 0) || isinf(bound)) return;
    int above = (__float_as_int(bound) >> kBits) - kBias + 1;  // bound < 2^above
    int exponent = min(kExponent - above, kLargest);
    scale = __int_as_float((kBias + exponent) << kBits);
    inverse = __int_as_float((kBias - exponent) << kBits);
  }
};

// What probabilities that were multiplied by 2^14 are to be multiplied by.
inline constexpr float kOfWeights = 1.0f / (1 << Power::kExponent);

// Where gradients go, and what they are multiplied by.
struct Gradient {
  View to;
  float factor;
};

// Where all pairs of queries and keys are so few that the cache holds them: probabilities times
// 2^14 and gradients of logits by (query, key), the latter by (query, distance) too, in the format
// of the inputs. Those gradients are those of 16 queries over one number of `inverse`.
struct KeptScores {
  void *weights = nullptr, *dweights = nullptr, *by_distance = nullptr;  // Size::Code
  float* inverse = nullptr;
  int rows = 0, columns = 0;  // of a head; no columns: not kept

  __device__ int64_t start(const Pair& at) const { return int64_t{at.pair} * rows * columns; }
  __device__ float* inverses(const Pair& at) const { return inverse + at.pair * (rows / kOwned); }
};

// Workspace of the gradient. Sums by distance are of one sample each; `arrived` counts, by head and
// tile of distances, the samples that are done.
struct GradRooms {
  RowGrad* rows;
  float* by_sample;
  int* arrived;
  int64_t tiles;  // of distances
  int64_t bytes;  // of all
  KeptScores kept;

  GradRooms(const Attention& a, std::byte* workspace);
};

// Whether all samples have come to this tile of distances.
__device__ inline bool is_last(const Attention& a, const Pair& at, const GradRooms& rooms) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(rooms.arrived + at.head * rooms.tiles + at.tile, 1) == a.batch - 1;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// The last sample's block adds up those of all, in the samples' order; `count` distances a tile.
__device__ inline void add_samples(const Attention& a, const Pair& at, const GradRooms& rooms,
                                   int count, const Gradient& drelative) {
  if (!is_last(a, at, rooms)) return;
  int pairs = a.d / 2;
  for (int i = static_cast<int>(threadIdx.x); i < count * pairs; i += kThreads) {
    int distance = at.tile * count + i / pairs, x = i % pairs * 2;
    if (distance >= a.tk) continue;
    int64_t place = distance * a.width + at.head * a.d + x;
    float2 total = make_float2(0, 0);
#pragma unroll 8
    for (int64_t sample = 0; sample < a.batch; ++sample) {
      const float* from = rooms.by_sample + sample * a.tk * a.width + place;
      float2 each = __ldcg(reinterpret_cast<const float2*>(from));
      total.x += each.x, total.y += each.y;
    }
    store_two(drelative.to, place,
              make_float2(total.x * drelative.factor, total.y * drelative.factor));
  }
}

struct ColumnGrads {
  Gradient keys, values, distances;
};

// The gradients of keys, values and distances, once rooms.rows or rooms.kept is there. Without the
// latter large heads of fp32 do not fit shared memory.
bool has_column_grads(const Attention& a);
void run_column_grads(const Attention& a, const GradRooms& rooms, const ColumnGrads& to);
void run_kept_grads(const Attention& a, const GradRooms& rooms, const ColumnGrads& to);

}  // namespace sigma1::cuda
