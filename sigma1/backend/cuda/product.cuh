// Products of matrices that do not lie in memory as such: what a convolution or a recurrence
// multiplies is found element by element, as tiles are brought into shared memory. Each sum has one
// thread and goes through its terms in order; long sums of few results are cut into chunks, by size
// alone, that are added up in a second pass. Private to this folder.
#pragma once

#include <algorithm>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {

constexpr int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

// An array in the workspace.
inline View fp32_view(float* data, int64_t count) {
  return {data, Type::fp32, false, nullptr, count};
}

// factor · Σ of `count` arrays of n numbers, in their order.
void store_sums(const float* arrays, int64_t count, int64_t n, const View& to, float factor);

// c[m, n] = Σ over k of a[m, k] · b[k, n], for each of `groups`, the sum cut into `chunks`.
struct Product {
  int groups, m, n, k;
  int chunks = 1;

  static constexpr int kSide = 16;     // threads of a block along m, and along n
  static constexpr int kRowsEach = 4;  // rows of a tile that a thread computes

  static Product of(int64_t groups, int64_t m, int64_t n, int64_t k) {
    if (std::max({groups, m, n, k}) >= int64_t{1} << 30) {
      throw Error("cuda: expected products below 2^30 a side, got {}x{}x{}", m, n, k);
    }
    return {static_cast<int>(groups), static_cast<int>(m), static_cast<int>(n),
            static_cast<int>(k)};
  }

  int columns_each() const { return n <= kSide ? 1 : 4; }
  int64_t blocks() const {
    return chunks * groups * ceil_div(m, kSide * kRowsEach) * ceil_div(n, kSide * columns_each());
  }
  // Where few blocks would each have a long sum: as many as keep a large GPU busy.
  Product in_chunks() const {
    constexpr int64_t kBusy = 264, kShortest = 256;
    Product cut = *this;
    cut.chunks = static_cast<int>(
        std::clamp<int64_t>(kBusy / blocks(), 1, std::max<int64_t>(1, k / kShortest)));
    return cut;
  }
};

// A slice of a factor as [depth][outer]. Neighbouring threads take neighbours in memory: along the
// sum where the factor says so.
template <int kOuter, int kDepth, class Element>
__device__ void load_slice(bool along_sum, int outer0, int outer_end, int k0, int k_end,
                           float (*to)[kOuter + 1], Element element) {
  for (int i = static_cast<int>(threadIdx.x); i < kOuter * kDepth; i += kThreads) {
    int outer = along_sum ? i / kDepth : i % kOuter, depth = along_sum ? i % kDepth : i / kOuter;
    bool inside = outer0 + outer < outer_end && k0 + depth < k_end;
    to[depth][outer] = inside ? element(outer0 + outer, k0 + depth) : 0;
  }
}

// a(group, row, k), b(group, k, column), c(group, chunk, row, column, sum)
template <int kColumnsEach, class A, class B, class C>
__global__ void __launch_bounds__(kThreads, 1) product_kernel(Product p, A a, B b, C c) {
  constexpr int kSide = Product::kSide, kRowsEach = Product::kRowsEach;
  constexpr int kRows = kSide * kRowsEach, kColumns = kSide * kColumnsEach, kDepth = 16;
  __shared__ float rows[kDepth][kRows + 1], columns[kDepth][kColumns + 1];
  int across = (p.n + kColumns - 1) / kColumns, down = (p.m + kRows - 1) / kRows;
  int block = static_cast<int>(blockIdx.x);
  int column0 = block % across * kColumns, row0 = block / across % down * kRows;
  int group = block / across / down % p.groups, chunk = block / across / down / p.groups;
  int length = (p.k + p.chunks - 1) / p.chunks;
  int begin = chunk * length, end = min(p.k, begin + length);
  int tx = static_cast<int>(threadIdx.x) % kSide, ty = static_cast<int>(threadIdx.x) / kSide;
  float sums[kRowsEach][kColumnsEach] = {};
  for (int k0 = begin; k0 < end; k0 += kDepth) {
    load_slice<kRows, kDepth>(A::kAlongSum, row0, p.m, k0, end, rows,
                              [&](int row, int k) { return a(group, row, k); });
    load_slice<kColumns, kDepth>(B::kAlongSum, column0, p.n, k0, end, columns,
                                 [&](int column, int k) { return b(group, k, column); });
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r) {
        float factor = rows[k][ty + kSide * r];
#pragma unroll
        for (int n = 0; n < kColumnsEach; ++n) sums[r][n] += factor * columns[k][tx + kSide * n];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
    for (int n = 0; n < kColumnsEach; ++n) {
      int row = row0 + ty + kSide * r, column = column0 + tx + kSide * n;
      if (row < p.m && column < p.n) c(group, chunk, row, column, sums[r][n]);
    }
  }
}

template <class A, class B, class C>
void multiply(const Product& p, const A& a, const B& b, const C& c) {
  static_assert(Product::kSide * Product::kSide == kThreads);
  auto blocks = static_cast<unsigned>(p.blocks());
  if (p.columns_each() == 1) {
    product_kernel<1><<<blocks, kThreads, 0, stream()>>>(p, a, b, c);
  } else {
    product_kernel<4><<<blocks, kThreads, 0, stream()>>>(p, a, b, c);
  }
  check(cudaGetLastError(), "product");
}

}  // namespace sigma1::cuda
