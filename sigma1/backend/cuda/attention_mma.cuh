// What attention and its gradient share where tensor cores multiply: q, k, v, relative and dy all
// of fp16, or all of bf16, in heads of 16, 32, … 128 numbers. Private to this folder.
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
#pragma once

#include "sigma1/backend/cuda/attention_tile.cuh"
#include "sigma1/backend/cuda/mma.cuh"

namespace sigma1::cuda {

inline constexpr int kOwned = 16;  // rows that a block owns
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kElementBytes = 2;

template <class Number, int kNumbers>
struct MmaSize {
  using Element = Number;
  static constexpr int kHead = kNumbers;  // numbers of a head at most; the rest is zeros
  static constexpr int kStride =
      kNumbers + 8;                            // of rows in shared memory: eight of them, all banks
  static constexpr int kTiles = kNumbers / 8;  // of a row of results
  static constexpr int kBlocksOfSm = kNumbers <= 64 ? 2 : 1;
};

// 16 rows of 8 · kTiles columns, over the lanes of a warp.
template <int kTiles>
using Tiles = float[kTiles][4];

// Where a lane's number `n` of a tile lies in it.
__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int warp_of_block() { return static_cast<int>(threadIdx.x) / 32; }
__device__ inline int tile_row(int n) { return lane_of_warp() / 4 + n / 2 * 8; }
__device__ inline int tile_column(int n) { return lane_of_warp() % 4 * 2 + n % 2; }

__device__ inline int tile_pair() { return lane_of_warp() % 4; }

// Over the four lanes of a row; all of them have the result.
__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(~0U, value, 1);
  return value + __shfl_xor_sync(~0U, value, 2);
}
__device__ inline float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(~0U, value, 1));
  return fmaxf(value, __shfl_xor_sync(~0U, value, 2));
}

// Rows [first, first + rows) of one head from `start` on, zeros outside [0, limit); asynchronous,
// by the kCopiers threads of a block or a warp.
template <class Size, int kCopiers>
__device__ void copy_rows(const Attention& a, const View& from, int64_t start, int first, int rows,
                          int64_t limit, typename Size::Element* to) {
  using Element = typename Size::Element;
  constexpr int kEach = 8, kPieces = Size::kHead / kEach, kStep = kCopiers / kPieces;
  int copier = static_cast<int>(threadIdx.x) % kCopiers;
  int row = copier / kPieces, x = copier % kPieces * kEach;
  auto end = x < a.d ? static_cast<unsigned>(limit) : 0;
  const Element* source = static_cast<const Element*>(from.data) + start + x;
  source += (first + row) * a.width;
  uint32_t place = shared_address(to + row * Size::kStride + x);
#pragma unroll 1
  for (; row < rows; row += kStep, source += kStep * a.width) {
    bool inside = static_cast<unsigned>(first + row) < end;  // below zero is large
    copy_16_async(place, source, inside);
    place += kStep * Size::kStride * kElementBytes;
  }
}

// 16 numbers of each of 16 rows, as the left factor of products.
struct LeftStep {
  uint32_t at[4];
};

// All numbers of 16 rows.
template <class Size>
struct LeftRows {
  static constexpr int kSteps = Size::kHead / 16;
  LeftStep steps[kSteps];

  // Rows of one head as above, not through shared memory.
  __device__ LeftRows(const Attention& a, const View& from, int64_t start, int first,
                      int64_t limit) {
    const auto* source = static_cast<const typename Size::Element*>(from.data) + start;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int row = first + tile_row(2 * half);
      int end = row < limit ? a.d : 0;
      const auto* pairs = reinterpret_cast<const uint32_t*>(source + row * a.width) + tile_pair();
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        bool inside = step * 16 < end;
        steps[step].at[half] = inside ? __ldg(pairs + step * 8) : 0;
        steps[step].at[half + 2] = inside ? __ldg(pairs + step * 8 + 4) : 0;
      }
    }
  }
  __device__ LeftStep step(int x) const { return steps[x / 16]; }
};

// The same from rows in shared memory, each time they are needed.
template <class Size>
struct LeftRoom {
  const typename Size::Element* rows;

  __device__ LeftStep step(int x) const {
    int lane = lane_of_warp();
    LeftStep got;
    load_matrix_x4(got.at, rows + lane % 16 * Size::kStride + lane / 16 * 8 + x);
    return got;
  }
};

// sums[r][c] += left_r · columns_c
template <class Size, int kTiles, class Left>
__device__ void add_warp_dots(const Left& left, const typename Size::Element* columns,
                              Tiles<kTiles>& sums) {
  static_assert(kTiles % 2 == 0);
  int lane = lane_of_warp();
  columns += (lane % 8 + lane / 16 * 8) * Size::kStride + lane / 8 % 2 * 8;
  uint32_t from = shared_address(columns);
#pragma unroll
  for (int x = 0; x < Size::kHead; x += 16) {
    LeftStep factor = left.step(x);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      uint32_t b[4];
      load_matrix_x4(b, from + (n * 8 * Size::kStride + x) * kElementBytes);
      mma_16x8x16<typename Size::Element>(sums[n], factor.at, {b[0], b[1]});
      mma_16x8x16<typename Size::Element>(sums[n + 1], factor.at, {b[2], b[3]});
    }
  }
}

// Results of two tiles become a factor of 16×16.
template <class Element>
struct Factor {
  uint32_t at[4];

  __device__ Factor(const float (&left)[4], const float (&right)[4])
      : at{packed<Element>(left[0], left[1]), packed<Element>(left[2], left[3]),
           packed<Element>(right[0], right[1]), packed<Element>(right[2], right[3])} {}
};

// sums_r += Σ over 16 columns c of weights[r][c] · rows_c
template <class Size>
__device__ void add_warp_products(const uint32_t (&weights)[4], const typename Size::Element* rows,
                                  Tiles<Size::kTiles>& sums) {
  int lane = lane_of_warp();
  uint32_t from = shared_address(rows + lane % 16 * Size::kStride + lane / 16 * 8);
#pragma unroll
  for (int n = 0; n < Size::kTiles; n += 2) {
    uint32_t b[4];
    load_matrix_x4_transposed(b, from + n * 8 * kElementBytes);
    mma_16x8x16<typename Size::Element>(sums[n], weights, {b[0], b[1]});
    mma_16x8x16<typename Size::Element>(sums[n + 1], weights, {b[2], b[3]});
  }
}

// A warp's room for 16 rows of products that are read skewed.
template <int kColumns>
struct Skew {
  static constexpr int kStride = kColumns + 4;  // few rows a bank, straight and skewed
  static constexpr int kFloats = 16 * kStride;

  template <class Size, class Left>
  __device__ static void keep_dots(const Left& left, const typename Size::Element* columns,
                                   float* room) {
    __syncwarp();  // what lay there may still be read
#pragma unroll
    for (int column = 0; column < kColumns; column += 16) {
      Tiles<2> sums = {};
      add_warp_dots<Size, 2>(left, columns + column * Size::kStride, sums);
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
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

// Of −∞, 0.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// What logits are taken relative to: the largest, or anything where nothing is seen.
__device__ inline float finite_largest(float largest) { return largest == -INFINITY ? 0 : largest; }

// Each warp's sums for 16 rows, times the warp's weight(part, row), added up in the order of the
// parts: store(row, x, two neighbours). Of kGroups neighbouring warps each has other rows. Warps
// that have nothing bring zeros: what has no branch is read all at once.
template <class Size>
constexpr int parts_floats() {
  return kWarps * kOwned * (Size::kHead + 8);
}
template <class Size, int kGroups = 1, class Weights, class Store>
__device__ void sum_parts(float* room, const Tiles<Size::kTiles>& sums, Weights weights,
                          Store store_two) {
  constexpr int kStride = Size::kHead + 8, kPairs = Size::kHead / 2;
  __syncthreads();  // what lay there may still be read
  float* mine = room + warp_of_block() * kOwned * kStride;
#pragma unroll
  for (int n = 0; n < Size::kTiles; ++n) {
#pragma unroll
    for (int half = 0; half < 4; half += 2) {
      float* to = mine + tile_row(half) * kStride + n * 8 + tile_column(half);
      *reinterpret_cast<float2*>(to) = make_float2(sums[n][half], sums[n][half + 1]);
    }
  }
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
  if (a.q.type == Type::fp16) {
    of(__half{});
  } else {
    of(__nv_bfloat16{});
  }
}

void run_attention_mma(const Launch& launch);
void run_attention_grad_mma(const Launch& launch);

}  // namespace sigma1::cuda
