// The cast that finds its scale while training: the largest magnitude by blocks, then the scale
// from it or from its history, then the codes. The scale stays on the device.
#include "sigma1/ops/cast.h"

#include "sigma1/backend/cuda/fold.cuh"
#include "sigma1/backend/cuda/four.cuh"
#include "sigma1/backend/cuda/kernel_table.h"

namespace sigma1::cuda {
namespace {

// Magnitudes are compared as bits without sign, which are in the order of the numbers, with NaN
// last.
__device__ uint32_t magnitude_bits(float x) { return __float_as_uint(x) & 0x7FFFFFFF; }
// A NaN counts as infinity.
__device__ float magnitude_of(uint32_t bits) {
  return __uint_as_float(bits < 0x7F800000 ? bits : 0x7F800000);
}

__global__ void find_largest(const __grid_constant__ Input x, uint32_t* of_blocks) {
  uint32_t largest = 0;
  int64_t size = x.view.count;
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    Four values = read(x, first, size);
    for (float value : values.at) largest = max(largest, magnitude_bits(value));
  }
  largest = block_fold(largest, Larger());
  if (threadIdx.x == 0) of_blocks[blockIdx.x] = largest;
}

struct ScaleSearch {
  const uint32_t* of_blocks;
  int blocks;
  const float* history;  // null: this step's own magnitude decides
  float* next_history;   // perhaps the same memory
  float format_max, factor;
  float *scale, *stored_scale;
};

// By one block.
__global__ void find_scale(ScaleSearch s) {
  uint32_t largest = 0;
  for (int i = threadIdx.x; i < s.blocks; i += blockDim.x) largest = max(largest, s.of_blocks[i]);
  float own = magnitude_of(block_fold(largest, Larger())), known = own;
  if (s.history != nullptr) {
    float before = threadIdx.x < kAmaxHistory ? s.history[threadIdx.x] : 0;
    known = magnitude_of(block_fold(magnitude_bits(before), Larger()));
    if (threadIdx.x + 1 < kAmaxHistory) s.next_history[threadIdx.x + 1] = before;
    if (threadIdx.x == 0) s.next_history[0] = own;
  }
  if (threadIdx.x > 0) return;
  *s.scale = cast_scale(known, s.format_max);
  *s.stored_scale = s.factor / *s.scale;
}

__global__ void cast_scaled(const __grid_constant__ Input x, const __grid_constant__ Output to,
                            const float* scale) {
  int64_t size = x.view.count;
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    Four values = read(x, first, size);
    for (float& value : values.at) value *= *scale;
    write(to, first, values);
  }
}

void run_scaled_cast(const Launch& launch) {
  const Buffer& out = launch.out();
  if (out.scale == nullptr) throw Bug("scaled_cast: its output has no room for a scale");
  bool delayed = launch.inputs.size() == 2;
  Input x = input_of(launch.in(0));
  int blocks = blocks_for_fours(x.view.count);
  auto* of_blocks = reinterpret_cast<uint32_t*>(launch.workspace.data());
  auto* scale = reinterpret_cast<float*>(of_blocks + blocks);
  find_largest<<<blocks, kThreads, 0, stream()>>>(x, of_blocks);
  check(cudaGetLastError(), "scaled_cast: the largest magnitude");
  find_scale<<<1, kThreads, 0, stream()>>>(
      {.of_blocks = of_blocks,
       .blocks = blocks,
       .history = delayed ? launch.in(1).floats() : nullptr,
       .next_history = delayed ? launch.out(1).floats() : nullptr,
       .format_max = static_cast<float>(out.codec->cast().format.max()),
       .factor = launch.factor(),
       .scale = scale,
       .stored_scale = out.scale});
  check(cudaGetLastError(), "scaled_cast: the scale");
  cast_scaled<<<blocks, kThreads, 0, stream()>>>(x, output_of(launch), scale);
  check(cudaGetLastError(), "scaled_cast");
}

int64_t scaled_cast_workspace(const Launch& launch) {
  int blocks = blocks_for_fours(launch.in(0).count());
  return (blocks + 1) * static_cast<int64_t>(sizeof(float));
}

// The history moves on where it stands.
bool history_in_place(size_t input, size_t output) { return input == 1 && output == 1; }

constexpr Kernel kKernels[] = {
    {&scaled_cast_op, run_scaled_cast, scaled_cast_workspace, history_in_place}};

}  // namespace

std::span<const Kernel> cast_kernels() { return kKernels; }

}  // namespace sigma1::cuda
