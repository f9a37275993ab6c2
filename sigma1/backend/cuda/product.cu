#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {
namespace {

__global__ void sum_arrays(const float* arrays, int64_t count, int64_t n, View to, float factor) {
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    float sum = 0;
    for (int64_t term = 0; term < count; ++term) sum += arrays[term * n + i];
    store(to, i, sum * factor);
  }
}

}  // namespace

void store_sums(const float* arrays, int64_t count, int64_t n, const View& to, float factor) {
  sum_arrays<<<blocks_for(n), kThreads, 0, stream()>>>(arrays, count, n, to, factor);
  check(cudaGetLastError(), "sum of arrays");
}

}  // namespace sigma1::cuda
