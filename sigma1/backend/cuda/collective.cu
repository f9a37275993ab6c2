// Collectives of a world of one GPU, where each is a copy.
#include "sigma1/ops/collective.h"

#include "sigma1/backend/cuda/four.cuh"
#include "sigma1/backend/cuda/kernel_table.h"

namespace sigma1::cuda {
namespace {

__global__ void copy_scaled(const __grid_constant__ Input x, const __grid_constant__ Output to,
                            float factor) {
  int64_t size = x.view.count;
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    Four values = read(x, first, size);
    for (float& value : values.at) value *= factor;
    write(to, first, values);
  }
}

void run_alone(const Launch& launch) {
  if (launch.attr<int64_t>("world") != 1) {
    throw Error("ranks: expected one on a GPU; several train on CPUs only, --device cpu");
  }
  for (size_t i = 0; i < launch.inputs.size(); ++i) {
    Input x = input_of(launch.in(i));
    copy_scaled<<<blocks_for_fours(x.view.count), kThreads, 0, stream()>>>(x, output_of(launch, i),
                                                                           launch.factor(i));
    check(cudaGetLastError(), "collective");
  }
}

bool each_in_place(size_t input, size_t output) { return input == output; }

constexpr Kernel kKernels[] = {{&all_reduce_op, run_alone, nullptr, each_in_place},
                               {&reduce_scatter_op, run_alone, nullptr, each_in_place},
                               {&all_gather_op, run_alone, nullptr, each_in_place}};

}  // namespace

std::span<const Kernel> collective_kernels() { return kKernels; }

}  // namespace sigma1::cuda
