#include "sigma1/backend/cuda/partial_sums.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {
namespace {

constexpr int kColumns = 32;

struct AllSums {
  PartialSums of[kMostPartialSums];
};

// A thread has every kShares-th part of a column.
template <int kShares>
__global__ void __launch_bounds__(kColumns* kShares) add_shares(const __grid_constant__ AllSums a) {
  __shared__ float shares[kShares][kColumns];
  const PartialSums& s = a.of[blockIdx.y];
  const int64_t column = int64_t{blockIdx.x} * kColumns + threadIdx.x;
  float sum = 0;
  if (column < s.n) {
#pragma unroll 8
    for (int64_t part = threadIdx.y; part < s.parts; part += kShares) {
      sum += s.partials[part * s.stride + column];
    }
  }
  shares[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= s.n) return;
#pragma unroll
  for (int share = 1; share < kShares; ++share) sum += shares[share][threadIdx.x];
  write_one(s.out, column, sum * s.factor);
}

template <int kShares>
void launch(const AllSums& all, int64_t n, size_t count) {
  dim3 blocks(static_cast<unsigned>((n + kColumns - 1) / kColumns), static_cast<unsigned>(count));
  launch_kernel("adding up parts", add_shares<kShares>, {blocks, dim3(kColumns, kShares)}, all);
}

}  // namespace

void add_parts(std::span<const PartialSums> sums) {
  constexpr int64_t kFewParts = 32;
  if (sums.empty() || sums.size() > kMostPartialSums) throw Bug("{} partial sums", sums.size());
  AllSums all{};
  std::ranges::copy(sums, all.of);
  if (sums[0].n == 0) return;
  if (sums[0].parts <= kFewParts) {
    launch<4>(all, sums[0].n, sums.size());
  } else {
    launch<32>(all, sums[0].n, sums.size());
  }
}

}  // namespace sigma1::cuda
