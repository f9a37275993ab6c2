#include "sigma1/backend/cuda/linear_tensor.cuh"

#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/mma.cuh"

namespace sigma1::cuda {
namespace {

// A block computes a tile of 128 rows and columns, a warp 64 by 32 of it; operands come in slabs of
// 64 along the sum, copied ahead.
constexpr int kRows = 128, kColumns = 128, kDepth = 64, kStages = 2;
constexpr int kWarpRows = 64, kWarpColumns = 32, kWarpsAcross = kColumns / kWarpColumns;
constexpr int kGroup = 8;  // numbers in 16 bytes
constexpr int kSlabBytesA = kRows * kDepth * 2, kSlabBytes = kSlabBytesA + kColumns * kDepth * 2;
constexpr int kResultStride = kColumns + kGroup;  // eight rows in different banks
constexpr int kSharedBytes = std::max(kStages * kSlabBytes, kRows* kResultStride * 2);

struct Arguments {
  const std::byte *a, *b;
  View bias, c;
  int m, n, k;
  float alpha;
};

// Where group `group` of 16 bytes of a row lies; permuted by the row, so that eight rows are in
// different banks. The places of rows eight apart differ by their distance alone, and those of
// groups by an exclusive or where the row begins on 128 bytes.
template <int kGroups>
__device__ uint32_t place(int row, int group) {
  return static_cast<uint32_t>(row * kGroups + (group ^ (row & 7))) * 16;
}

// What a thread brings to a slab: of both operands a group of every so many rows.
class Fetcher {
 public:
  __device__ Fetcher(const Arguments& p, uint32_t room, int row0, int column0)
      : a_step_(int64_t{p.k} * kRowsA * 2), b_step_(int64_t{p.n} * kRowsB * 2), room_(room) {
    const int thread = static_cast<int>(threadIdx.x);
    int row_a = thread / kGroupsA, group_a = thread % kGroupsA;
    int row_b = thread / kGroupsB, group_b = thread % kGroupsB;
    int column = column0 + group_b * kGroup;
    a_ = p.a + 2 * (int64_t{row0 + row_a} * p.k + group_a * kGroup);
    b_ = p.b + 2 * (int64_t{row_b} * p.n + column);
    to_a_ = place<kGroupsA>(row_a, group_a);
    to_b_ = kSlabBytesA + place<kGroupsB>(row_b, group_b);
    rows_left_ = p.m - row0 - row_a;
    depth_left_a_ = p.k - group_a * kGroup;
    depth_left_b_ = column < p.n ? p.k - row_b : 0;
  }

  // Begins to bring the next slab; zeros outside.
  __device__ void fetch(int stage) {
    uint32_t slab = room_ + static_cast<uint32_t>(stage * kSlabBytes);
#pragma unroll
    for (int i = 0; i < kRows / kRowsA; ++i) {
      copy_16_async(slab + to_a_ + i * kRowsA * kGroupsA * 16, a_ + i * a_step_,
                    depth_left_a_ > 0 && i * kRowsA < rows_left_);
    }
#pragma unroll
    for (int i = 0; i < kDepth / kRowsB; ++i) {
      copy_16_async(slab + to_b_ + i * kRowsB * kGroupsB * 16, b_ + i * b_step_,
                    i * kRowsB < depth_left_b_);
    }
    a_ += kDepth * 2;
    b_ += b_step_ * (kDepth / kRowsB);
    depth_left_a_ -= kDepth;
    depth_left_b_ -= kDepth;
  }

 private:
  static constexpr int kGroupsA = kDepth / kGroup, kGroupsB = kColumns / kGroup;
  static constexpr int kRowsA = kThreads / kGroupsA, kRowsB = kThreads / kGroupsB;
  static_assert(kRowsA % 8 == 0 && kRowsB % 8 == 0);

  int64_t a_step_, b_step_;  // bytes
  const std::byte *a_, *b_;
  uint32_t room_, to_a_, to_b_;
  int rows_left_, depth_left_a_, depth_left_b_;  // from the first group on
};

struct Sums {
  float at[kWarpRows / 16][kWarpColumns / 8][4];

  // All rows begin with the bias of their columns; `bias` is of the warp's.
  __device__ explicit Sums(const float* bias) {
#pragma unroll
    for (int n = 0; n < kWarpColumns / 8; ++n) {
      float2 pair = reinterpret_cast<const float2*>(bias)[n * 4 + threadIdx.x % 4];
#pragma unroll
      for (auto& row : at) {
        row[n][0] = row[n][2] = pair.x;
        row[n][1] = row[n][3] = pair.y;
      }
    }
  }
};

// Where a lane loads its matrices from, in the first slab.
struct Places {
  uint32_t a, b;

  __device__ Places(uint32_t room, int warp_row, int warp_column) {
    int lane = static_cast<int>(threadIdx.x) % 32;
    a = room + place<kDepth / kGroup>(warp_row + lane % 16, lane / 16);
    b = room + kSlabBytesA + place<kColumns / kGroup>(lane % 16, warp_column / kGroup + lane / 16);
  }
};

template <class Element>
__device__ void add_slab(const Places& places, int stage, Sums& sums) {
  uint32_t from_a = places.a + static_cast<uint32_t>(stage * kSlabBytes);
  uint32_t from_b = places.b + static_cast<uint32_t>(stage * kSlabBytes);
#pragma unroll
  for (int deep = 0; deep < kDepth; deep += 16) {
    uint32_t b[kWarpColumns / 16][4];
#pragma unroll
    for (int n = 0; n < kWarpColumns / 16; ++n) {
      load_matrix_x4_transposed(b[n], (from_b ^ n * 32) + deep * kColumns * 2);
    }
#pragma unroll
    for (int m = 0; m < kWarpRows / 16; ++m) {
      uint32_t a[4];
      load_matrix_x4(a, (from_a ^ deep * 2) + m * 16 * kDepth * 2);
#pragma unroll
      for (int n = 0; n < kWarpColumns / 8; ++n) {
        mma_16x8x16<Element>(sums.at[m][n], a, {b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]});
      }
    }
  }
}

// To shared memory, from where rows are written 16 bytes at a time.
template <class Element>
__device__ void stage_tile(const Sums& sums, float alpha, uint32_t room, int warp_row,
                           int warp_column) {
  int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t to = room + static_cast<uint32_t>(2 * ((warp_row + lane % 16) * kResultStride +
                                                  warp_column + lane / 16 * 8));
#pragma unroll
  for (int m = 0; m < kWarpRows / 16; ++m) {
#pragma unroll
    for (int n = 0; n < kWarpColumns / 8; n += 2) {
      const float *left = sums.at[m][n], *right = sums.at[m][n + 1];
      store_matrix_x4(to + 2 * (m * 16 * kResultStride + n * 8),
                      {packed<Element>(alpha * left[0], alpha * left[1]),
                       packed<Element>(alpha * left[2], alpha * left[3]),
                       packed<Element>(alpha * right[0], alpha * right[1]),
                       packed<Element>(alpha * right[2], alpha * right[3])});
    }
  }
}

__device__ void write_tile(const Arguments& p, const std::byte* room, int row0, int column0) {
  constexpr int kGroups = kColumns / kGroup, kRowsAtOnce = kThreads / kGroups;
  int row = static_cast<int>(threadIdx.x) / kGroups;
  int column = static_cast<int>(threadIdx.x) % kGroups * kGroup;
  if (column0 + column >= p.n) return;
  int rows_left = p.m - row0 - row;
  auto* to = static_cast<std::byte*>(p.c.data) + 2 * (int64_t{row0 + row} * p.n + column0 + column);
  int64_t step = int64_t{p.n} * kRowsAtOnce * 2;
  const std::byte* from = room + 2 * (row * kResultStride + column);
#pragma unroll
  for (int i = 0; i < kRows / kRowsAtOnce; ++i) {
    if (i * kRowsAtOnce >= rows_left) break;
    *reinterpret_cast<uint4*>(to + i * step) =
        *reinterpret_cast<const uint4*>(from + i * kRowsAtOnce * kResultStride * 2);
  }
}

template <class Element>
__global__ void __launch_bounds__(kThreads, 2) multiply_tiles(const __grid_constant__ Arguments p) {
  extern __shared__ __align__(128) std::byte room[];
  __shared__ __align__(128) float bias[kColumns];
  const int warp = static_cast<int>(threadIdx.x) / 32, thread = static_cast<int>(threadIdx.x);
  int warp_row = warp / kWarpsAcross * kWarpRows, warp_column = warp % kWarpsAcross * kWarpColumns;
  int row0 = static_cast<int>(blockIdx.x) * kRows,
      column0 = static_cast<int>(blockIdx.y) * kColumns;
  int slabs = (p.k + kDepth - 1) / kDepth;
  Fetcher fetcher(p, shared_address(room), row0, column0);
  for (int i = 0; i < kStages; ++i) {
    if (i < slabs) fetcher.fetch(i);
    commit_copies();
  }
  if (thread < kColumns) {
    bias[thread] = column0 + thread < p.n ? load(p.bias, column0 + thread) : 0;
  }
  __syncthreads();
  Sums sums(bias + warp_column);
  const Places places(shared_address(room), warp_row, warp_column);
  for (int i = 0; i < slabs; ++i) {
    wait_copies<kStages - 1>();
    __syncthreads();
    add_slab<Element>(places, i % kStages, sums);
    __syncthreads();
    if (i + kStages < slabs) fetcher.fetch(i % kStages);
    commit_copies();
  }
  stage_tile<Element>(sums, p.alpha, shared_address(room), warp_row, warp_column);
  __syncthreads();
  write_tile(p, room, row0, column0);
}

bool is_packed(const Gemm& p) {
  return p.count == 1 && !p.transpose_a && !p.transpose_b && p.lda == p.k && p.ldb == p.n &&
         p.ldc == p.n;
}

}  // namespace

bool takes_bias(const Gemm& p) {
  bool fits = p.bias && is_packed(p) && p.k > 0 && p.k % kGroup == 0 && p.n % kGroup == 0;
  bool alike = (p.c.type == Type::fp16 || p.c.type == Type::bf16) && p.a.type == p.c.type &&
               p.b.type == p.c.type;
  bool plain = !p.c.saturates && !p.a.scale && !p.b.scale && !p.bias->scale;
  constexpr int64_t kMost = int64_t{1} << 30;
  return fits && alike && plain && p.m < kMost && p.n < kMost && p.k < kMost && !is_large(p);
}

void multiply_with_bias(const Gemm& p, cudaStream_t stream) {
  auto kernel = p.c.type == Type::fp16 ? multiply_tiles<__half> : multiply_tiles<__nv_bfloat16>;
  allow_most_shared(kernel, "linear");
  dim3 blocks(static_cast<unsigned>((p.m + kRows - 1) / kRows),
              static_cast<unsigned>((p.n + kColumns - 1) / kColumns));
  launch_kernel(
      "linear", kernel, {blocks, kThreads, kSharedBytes},
      {static_cast<const std::byte*>(p.a.data), static_cast<const std::byte*>(p.b.data), *p.bias,
       p.c, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), p.alpha});
}

}  // namespace sigma1::cuda
