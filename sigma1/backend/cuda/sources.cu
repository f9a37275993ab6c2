// Numbers that come from nowhere: constants and positions.
#include "sigma1/graph/sources.h"

#include <numbers>

#include "sigma1/backend/cuda/four.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/ops/positions.h"

namespace sigma1::cuda {
namespace {

__global__ void fill_indices(int32_t* to, int64_t count, int32_t value) {
  int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    to[i] = value;
  }
}

__global__ void fill_numbers(const __grid_constant__ Output to, float value) {
  for (int64_t first = first_of_thread(); first < to.view.count; first += stride_of_grid()) {
    write(to, first, {value, value, value, value});
  }
}

void run_constant(const Launch& launch) {
  const Buffer& out = launch.out();
  double value = launch.attr<double>("value");
  if (out.kind == Kind::index) {
    fill_indices<<<blocks_for(out.count()), kThreads, 0, stream()>>>(out.indices(), out.count(),
                                                                     static_cast<int32_t>(value));
  } else {
    auto scaled = static_cast<float>(value * static_cast<double>(launch.factor()));
    fill_numbers<<<blocks_for_fours(out.count()), kThreads, 0, stream()>>>(output_of(launch),
                                                                           scaled);
  }
  check(cudaGetLastError(), "constant");
}

// In double: a phase grows with the position, and fp32 would lose the digits behind the point.
__global__ void fill_sinusoids(const __grid_constant__ Output to, int64_t pairs, double ratio,
                               double factor) {
  int64_t count = to.view.count / 2, stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    double along = static_cast<double>(i % pairs) / static_cast<double>(pairs - 1);
    double phase = static_cast<double>(i / pairs) * (std::numbers::pi * ::pow(ratio, along));
    write_one(to, 2 * i, static_cast<float>(factor * ::sin(phase)));
    write_one(to, 2 * i + 1, static_cast<float>(factor * ::cos(phase)));
  }
}

void run_sinusoids(const Launch& launch) {
  int64_t pairs = launch.attr<int64_t>("components") / 2;
  double ratio = 2 / launch.attr<double>("longest"), factor = static_cast<double>(launch.factor());
  int blocks = blocks_for(launch.out().count() / 2);
  fill_sinusoids<<<blocks, kThreads, 0, stream()>>>(output_of(launch), pairs, ratio, factor);
  check(cudaGetLastError(), "sinusoids");
}

constexpr Kernel kKernels[] = {{&constant_op, run_constant}, {&sinusoids_op, run_sinusoids}};

}  // namespace

std::span<const Kernel> source_kernels() { return kKernels; }

}  // namespace sigma1::cuda
