#include "sigma1/backend/cuda/move.cuh"

namespace sigma1::cuda {
namespace {

template <class Copier>
__global__ void move_elements(const __grid_constant__ Copier copier,
                              const __grid_constant__ Walk from, const __grid_constant__ Walk to,
                              int64_t count) {
  int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    auto element = copier.read(from.base + place(from.layout, i));
    copier.write(to.base + place(to.layout, i), element);
  }
}

}  // namespace

Walk in_order(int64_t count) {
  Walk walk;
  walk.layout.push(count, 1);
  return walk;
}

void move(const Launch& launch, size_t input, size_t output, const Walk& from, const Walk& to,
          int64_t count) {
  with_copier(launch, input, output, [&]<class Copier>(const Copier& copier) {
    move_elements<<<blocks_for(count), kThreads, 0, stream()>>>(copier, from, to, count);
  });
  check(cudaGetLastError(), "move");
}

}  // namespace sigma1::cuda
