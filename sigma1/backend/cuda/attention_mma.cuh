// What attention and its gradient share where tensor cores multiply: q, k, v, relative and dy all
// of fp16, or all of bf16, in heads of 16, 32, … 128 numbers, or all of fp32, in heads of 4, 8, …
// 128. Private to this folder.
//
// A block of eight warps owns 16 rows of results; the warps share what is summed over, and what
// each of them has is added up at the end. Small models are a matter of latency: a warp's way
// through its share is to be short, two blocks are to fit a multiprocessor, and most of what a warp
// reads it has copied itself, so that it need not wait for others.
//
// With relative positions a score is q_i·k_j + q_i·r_{i−j}. The second term is computed by
// distances, for 16 queries against all distances that they need, and read "skewed": where (i, j)
// needs column i − j. Seen from distances it is the first term that is skewed. Both factors of a
// product must be of one format: probabilities and their gradients are rounded to that of the
// inputs, times a power of two that keeps fp16 from overflow and as far from underflow as it goes.
// (fp32 does not need it, and does not mind.)
#pragma once

#include "sigma1/backend/cuda/attention_factors16.cuh"
#include "sigma1/backend/cuda/attention_factors32.cuh"
#include "sigma1/backend/cuda/float_instructions.cuh"

namespace sigma1::cuda {

// A warp's room for 16 rows of products that are read skewed.
template <int kColumns>
struct Skew {
  static constexpr int kStride = kColumns + 4;  // few rows a bank, straight and skewed
  static constexpr int kFloats = 16 * kStride;

  template <class Size, class Left>
  __device__ static void keep_dots(const Left& left, const typename Size::Element* columns,
                                   float* room) {
    // Splitting the left factor costs as much as splitting a right one: it is to serve many.
    constexpr int kTiles = Size::kIsFp32 ? 4 : 2;
    __syncwarp();  // what lay there may still be read
#pragma unroll
    for (int column = 0; column < kColumns; column += 8 * kTiles) {
      Tiles<kTiles> sums = {};
      add_warp_dots<Size, kTiles>(left, columns + column * Size::kStride, sums);
#pragma unroll
      for (int n = 0; n < 4 * kTiles; n += 2) {
        const float* two = &sums[n / 4][n % 4];
        float* to = room + tile_row(n % 4) * kStride + column + n / 4 * 8 + tile_column(0);
        *reinterpret_cast<float2*>(to) = make_float2(two[0], two[1]);
      }
    }
    __syncwarp();
  }
};

// Logits are in units of log 2.
inline constexpr float kLog2e = 1.44269504088896341f;

// What logits are taken relative to: the largest, or anything where nothing is seen.
__device__ inline float finite_largest(float largest) { return largest == -INFINITY ? 0 : largest; }

// Each warp's sums for 16 rows, times the warp's weight(part, row), added up in the order of the
// parts: store(row, x, two neighbours). Of kGroups neighbouring warps each has other rows. Warps
// that have nothing bring zeros: what has no branch is read all at once.
template <class Size>
constexpr int parts_floats() {
  return kWarps * kOwned * Size::kStride;
}
template <class Size, int kGroups = 1, class Weights, class Store>
__device__ void sum_parts(float* room, const Tiles<Size::kTiles>& sums, Weights weights,
                          Store store_two) {
  constexpr int kStride = Size::kStride, kPairs = Size::kHead / 2;
  __syncthreads();  // what lay there may still be read
  keep_products<Size>(sums, room + warp_of_block() * kOwned * kStride);
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < kGroups * kOwned * kPairs; i += kThreads) {
    int item = i + static_cast<int>(threadIdx.x), row = item / kPairs, x = item % kPairs * 2;
    auto weight = weights(row);
    float2 total = make_float2(0, 0);
#pragma unroll
    for (int p = 0; p < kWarps / kGroups; ++p) {
      const float* from = room + (p * kGroups * kOwned + row) * kStride + x;
      auto each = *reinterpret_cast<const float2*>(from);
      float w = weight(p);
      total.x += w * each.x, total.y += w * each.y;
    }
    store_two(row, x, total);
  }
}
template <class Size, int kGroups = 1, class Store>
__device__ void sum_parts(float* room, const Tiles<Size::kTiles>& sums, Store store_two) {
  auto ones = [](int) { return [](int) { return 1.0f; }; };
  sum_parts<Size, kGroups>(room, sums, ones, store_two);
}

// Apart, for its many instructions: a kernel that runs for microseconds has to fetch them.
__device__ __noinline__ inline void store_two_rarely(View to, int64_t i, float2 values) {
  store(to, i, values.x);
  store(to, i + 1, values.y);
}

// Numbers i and i + 1, i even.
__device__ inline void store_two(const View& to, int64_t i, float2 values) {
  if (to.type == Type::fp16 && !to.saturates) {
    reinterpret_cast<uint32_t*>(to.data)[i / 2] = packed<__half>(values.x, values.y);
  } else if (to.type == Type::bf16 && !to.saturates) {
    reinterpret_cast<uint32_t*>(to.data)[i / 2] = packed<__nv_bfloat16>(values.x, values.y);
  } else if (to.type == Type::fp32) {
    reinterpret_cast<float2*>(to.data)[i / 2] = values;
  } else {
    store_two_rarely(to, i, values);
  }
}

// Row `row` of a tensor of `rows` vectors a sample, where it and the numbers exist.
__device__ inline void store_two(const Attention& a, const Pair& at, const View& to, int64_t rows,
                                 int row, int x, float2 values) {
  if (row >= rows || x >= a.d) return;
  store_two(to, at.start(a, rows) + row * a.width + x, values);
}

// Whether the kernels below are for these tensors; then run(MmaSize).
bool uses_tensor_cores(const Attention& a);

template <class Run>
void with_mma_size(const Attention& a, Run run) {
  auto of = [&]<class Element>(Element) {
    if (a.d <= 64) {
      run(MmaSize<Element, 64>{});
    } else {
      run(MmaSize<Element, 128>{});
    }
  };
  if (a.q.type == Type::fp32) {
    of(float{});
  } else if (a.q.type == Type::fp16) {
    of(__half{});
  } else {
    of(__nv_bfloat16{});
  }
}

void run_attention_mma(const Launch& launch);
void run_attention_grad_mma(const Launch& launch);

}  // namespace sigma1::cuda
