// Sums along axes in two passes at most: a warp or block sums a chunk of what goes into one output
// (or 32 neighbouring ones), and a warp per output adds up the chunks. What is cut depends on
// shapes alone.
#include "sigma1/ops/reduce.h"

#include "sigma1/backend/cuda/fold.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/move.cuh"

namespace sigma1::cuda {
namespace {

using Axes = std::vector<int64_t>;

constexpr int kWarp = 32;
constexpr int kRowsAtOnce = 8;  // of a block that sums rows

struct Reduction : cpu::SummedAxes {
  // Enough chunks to keep the device busy, none so small that adding them up is the larger part.
  static constexpr int64_t kWarpsWanted = 4096, kMinChunk = 1024;
  static constexpr int64_t kBlocksWanted = 1056, kMinRows = 64;

  int64_t terms, chunk, chunks;

  Reduction(const Shape& full, const Axes& axes) : SummedAxes(full, axes) {
    terms = summed.count();
    int64_t wanted = columns == 1 ? kWarpsWanted : kBlocksWanted;
    int64_t least = columns == 1 ? kMinChunk : kMinRows;
    chunk = std::min(terms, std::max(least, (terms * sets() + wanted - 1) / wanted));
    chunks = (terms + chunk - 1) / chunk;
  }

  __host__ __device__ int64_t column_tiles() const { return (columns + kWarp - 1) / kWarp; }
  // Outputs, or neighbours of them, that a warp or block has to itself.
  int64_t sets() const { return groups.count() * column_tiles(); }
};

// What a sum becomes: partial[output][chunk], or the result where there is one chunk.
struct SumTarget {
  float* partial;
  Output out;
  float factor;
  int64_t chunks;

  __device__ void write(int64_t output, int64_t chunk, float sum) const {
    if (chunks == 1) {
      write_one(out, output, factor * sum);
    } else {
      partial[output * chunks + chunk] = sum;
    }
  }
};

__device__ int64_t warp_of_grid() {
  return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
}
__device__ int64_t warps_of_grid() { return int64_t{gridDim.x} * blockDim.x / kWarp; }

// Neighbours are summed: a warp for each chunk of an output.
__global__ void sum_neighbours(View x, const __grid_constant__ Reduction r,
                               const __grid_constant__ SumTarget to, int64_t outputs) {
  int lane = threadIdx.x % kWarp;
  for (int64_t item = warp_of_grid(); item < outputs * r.chunks; item += warps_of_grid()) {
    int64_t output = item / r.chunks, chunk = item % r.chunks;
    int64_t first = chunk * r.chunk, last = min(first + r.chunk, r.terms);
    int64_t base = place(r.groups, output);
    float sum = 0;
#pragma unroll 4
    for (int64_t i = first + lane; i < last; i += kWarp) {
      sum += load(x, base + place(r.summed, i));
    }
    sum = warp_fold(sum, Plus());
    if (lane == 0) to.write(output, chunk, sum);
  }
}

// Neighbours stay: a block of kWarp × kRowsAtOnce threads for each chunk of kWarp columns.
__global__ void sum_rows(View x, const __grid_constant__ Reduction r,
                         const __grid_constant__ SumTarget to, int64_t items) {
  __shared__ float sums[kRowsAtOnce][kWarp];
  int64_t tiles = r.column_tiles();
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    int64_t chunk = item % r.chunks, set = item / r.chunks;
    int64_t column = set % tiles * kWarp + threadIdx.x, group = set / tiles;
    int64_t first = chunk * r.chunk, last = min(first + r.chunk, r.terms);
    float sum = 0;
    if (column < r.columns) {
      int64_t base = place(r.groups, group) + column;
#pragma unroll 4
      for (int64_t row = first + threadIdx.y; row < last; row += kRowsAtOnce) {
        sum += load(x, base + place(r.summed, row));
      }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < r.columns) {
      for (int row = 1; row < kRowsAtOnce; ++row) sum += sums[row][threadIdx.x];
      to.write(group * r.columns + column, chunk, sum);
    }
    __syncthreads();
  }
}

__global__ void sum_chunks(const __grid_constant__ SumTarget to, int64_t outputs) {
  int lane = threadIdx.x % kWarp;
  for (int64_t output = warp_of_grid(); output < outputs; output += warps_of_grid()) {
    float sum = 0;
    for (int64_t i = lane; i < to.chunks; i += kWarp) sum += to.partial[output * to.chunks + i];
    sum = warp_fold(sum, Plus());
    if (lane == 0) write_one(to.out, output, to.factor * sum);
  }
}

void run_reduction(const Launch& launch, bool mean) {
  Reduction r(launch.in(0).shape, launch.attr<Axes>("axes"));
  float factor = launch.factor() / (mean ? static_cast<float>(r.terms) : 1);
  SumTarget to{reinterpret_cast<float*>(launch.workspace.data()), output_of(launch), factor,
               r.chunks};
  int64_t outputs = r.outputs();
  View x = view_of(launch.in(0));
  if (r.columns == 1) {
    int blocks = blocks_for(outputs * r.chunks * kWarp);
    sum_neighbours<<<blocks, kThreads, 0, stream()>>>(x, r, to, outputs);
  } else {
    int64_t items = r.sets() * r.chunks;
    auto blocks = static_cast<unsigned>(std::min<int64_t>(items, 1 << 20));
    sum_rows<<<blocks, dim3(kWarp, kRowsAtOnce), 0, stream()>>>(x, r, to, items);
  }
  check(cudaGetLastError(), "sum");
  if (r.chunks == 1) return;
  sum_chunks<<<blocks_for(outputs * kWarp), kThreads, 0, stream()>>>(to, outputs);
  check(cudaGetLastError(), "sum of chunks");
}

void run_sum(const Launch& launch) { run_reduction(launch, false); }
void run_mean(const Launch& launch) { run_reduction(launch, true); }

int64_t partials_workspace(const Launch& launch) {
  Reduction r(launch.in(0).shape, launch.attr<Axes>("axes"));
  return r.chunks == 1 ? 0 : r.outputs() * r.chunks * static_cast<int64_t>(sizeof(float));
}

void run_broadcast(const Launch& launch) {
  const Buffer& out = launch.out();
  Walk from{cpu::broadcast_layout(launch.in(0).shape, out.shape, launch.attr<Axes>("axes"))};
  move(launch, 0, 0, from, in_order(out.count()), out.count());
}

constexpr Kernel kKernels[] = {{&sum_op, run_sum, partials_workspace},
                               {&mean_op, run_mean, partials_workspace},
                               {&broadcast_op, run_broadcast}};

}  // namespace

std::span<const Kernel> reduce_kernels() { return kKernels; }

}  // namespace sigma1::cuda
