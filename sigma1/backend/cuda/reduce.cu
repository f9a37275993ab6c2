// Sums along axes in two passes at most: a warp or block sums a chunk of what goes into one output
// (or 32 neighbouring ones), and a warp per output adds up the chunks. Large sums over all axes but
// the last read eight neighbours at a time. What is cut depends on shapes alone.
#include "sigma1/ops/reduce.h"

#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/backend/cuda/fold.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/move.cuh"
#include "sigma1/backend/cuda/partial_sums.cuh"

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

// The columns of [rows, n]: a warp has 256 of them, and the rows of a block's chunk are dealt to
// its warps.
struct ColumnSums {
  static constexpr int kWarps = kThreads / kWarp, kTile = 8 * kWarp;

  int64_t rows, n, chunk;

  ColumnSums(int64_t all_rows, int64_t columns) : rows(all_rows), n(columns) {
    // Enough blocks to keep the device busy, and rows for all that a thread reads at once.
    constexpr int64_t kBlocksWanted = 1056, kStep = 8 * kWarps;
    int64_t wanted = (rows * tiles() + kBlocksWanted - 1) / kBlocksWanted;
    chunk = (wanted + kStep - 1) / kStep * kStep;
  }
  int64_t tiles() const { return (n + kTile - 1) / kTile; }
  int64_t chunks() const { return (rows + chunk - 1) / chunk; }
};

// Rows [first, last) in steps of a block's warps, of a lane's columns.
template <class Reader>
__device__ Eight sum_of_rows(const View& x, int64_t n, int64_t first, int64_t last,
                             int64_t column) {
  constexpr int kAtOnce = Reader::kAtOnce, kStep = ColumnSums::kWarps;
  Eight sum{};
  for (; first < last; first += kAtOnce * kStep) {
    typename Reader::Codes codes[kAtOnce];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      codes[r] = Reader::read(x, n, first + r * kStep, column, first + r * kStep < last);
    }
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      Eight next = codes[r].numbers();
#pragma unroll
      for (int k = 0; k < 8; ++k) sum.at[k] += next.at[k];
    }
  }
  return sum;
}

// To partials[chunk][column].
__global__ void __launch_bounds__(kThreads, 4) sum_columns(View x, ColumnSums c, float* partials) {
  __shared__ __align__(16) float of_warps[ColumnSums::kWarps][ColumnSums::kTile];
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t tile = int64_t{blockIdx.x} * ColumnSums::kTile;
  const int64_t first = int64_t{blockIdx.y} * c.chunk, last = min(first + c.chunk, c.rows);
  with_reader(x.type, true, [&]<class Reader>(Reader) {
    Eight sum = sum_of_rows<Reader>(x, c.n, first + warp, last, tile + 8 * lane);
    EightCodes<Type::fp32>::of(sum, false).write(of_warps[warp], 8 * lane);
  });
  __syncthreads();
  const int64_t column = tile + threadIdx.x;
  if (column >= c.n) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < ColumnSums::kWarps; ++i) sum += of_warps[i][threadIdx.x];
  partials[int64_t{blockIdx.y} * c.n + column] = sum;
}

// Whether all but the last axis are summed, of a tensor large enough that it pays.
bool sums_columns(const Reduction& r) {
  constexpr int64_t kSmallest = 1 << 20, kMostRows = int64_t{1} << 31;
  bool in_order = r.groups.count() == 1 && r.summed.axes == 1 && r.summed.strides[0] == r.columns;
  return in_order && r.columns > 1 && r.columns % 8 == 0 && r.terms < kMostRows &&
         r.terms * r.columns >= kSmallest;
}

void run_column_sums(const Launch& launch, const Reduction& r, float factor) {
  ColumnSums c(r.terms, r.columns);
  auto* partials = reinterpret_cast<float*>(launch.workspace.data());
  dim3 blocks(static_cast<unsigned>(c.tiles()), static_cast<unsigned>(c.chunks()));
  launch_kernel("sum of columns", sum_columns, {blocks, kThreads}, view_of(launch.in(0)), c,
                partials);
  PartialSums sums{partials, c.chunks(), c.n, c.n, output_of(launch), factor};
  add_parts({&sums, 1});
}

void run_reduction(const Launch& launch, bool mean) {
  Reduction r(launch.in(0).shape, launch.attr<Axes>("axes"));
  float factor = launch.factor() / (mean ? static_cast<float>(r.terms) : 1);
  if (View x = view_of(launch.in(0));
      sums_columns(r) && x.scale == nullptr && packs_eight(x, r.columns)) {
    return run_column_sums(launch, r, factor);
  }
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
  int64_t chunks = r.chunks == 1 ? 0 : r.chunks;
  if (sums_columns(r)) chunks = std::max(chunks, ColumnSums(r.terms, r.columns).chunks());
  return r.outputs() * chunks * static_cast<int64_t>(sizeof(float));
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
