// Sums over all axes but the last: a block for 32 columns of a tensor, so that none waits for
// another. Lanes have neighbouring columns, rows are dealt to what is left of the block, and what
// its threads found is added up in their order.
#include "sigma1/backend/cpu/layout.h"
#include "sigma1/backend/cuda/bundle_kinds.cuh"
#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/ops/reduce.h"

namespace sigma1::cuda {
namespace {

constexpr int kLanes = 4;             // side by side in a row, 64 bytes of 16-bit numbers
constexpr int kColumns = 8 * kLanes;  // of a block
constexpr int kRowsAtOnce = kThreads / kLanes;
constexpr int kWarps = kThreads / 32;

// Columns of a sum. Each has all of its sum's fields, so that they are there with one access.
struct SumTile {
  View x;  // [rows, n]; its scale is the sum's
  Output out;
  float factor;
  int64_t rows, n;
  bool packs;  // eight neighbours of every row can be read at once
  int64_t column;
};

// Of every kRowsAtOnce-th row.
template <class Reader>
__device__ Eight sum_rows(const SumTile& tile, Reader) {
  constexpr int kAtOnce = Reader::kAtOnce;
  const View x{tile.x.data, tile.x.type, false, nullptr, tile.x.count};
  const int64_t n = tile.n, rows = tile.rows;
  const int64_t column = tile.column + 8 * (threadIdx.x % kLanes);
  Eight sum{};
  for (int64_t first = threadIdx.x / kLanes; first < rows; first += kAtOnce * kRowsAtOnce) {
    typename Reader::Codes codes[kAtOnce];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      int64_t row = first + r * kRowsAtOnce;
      codes[r] = Reader::read(x, n, row, column, row < rows);
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

// The sums of the block's columns, by the first kColumns threads.
__device__ float add_threads(const Eight& of_thread) {
  __shared__ float of_warps[kWarps][kColumns];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    float value = of_thread.at[k];
#pragma unroll
    for (int distance = kLanes; distance < 32; distance *= 2) {
      value += __shfl_xor_sync(0xFFFFFFFF, value, distance);
    }
    if (lane < kLanes) of_warps[warp][8 * lane + k] = value;
  }
  __syncthreads();
  float sum = 0;
  if (threadIdx.x < kColumns) {
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += of_warps[i][threadIdx.x];
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads, 4) sum_all(const SumTile* tiles) {
  const SumTile& tile = tiles[blockIdx.x];
  Eight of_thread;
  with_reader(tile.x.type, tile.packs, [&](auto reader) { of_thread = sum_rows(tile, reader); });
  float total = add_threads(of_thread);
  int64_t column = tile.column + threadIdx.x;
  if (threadIdx.x >= kColumns || column >= tile.n) return;
  float scale = tile.x.scale == nullptr ? 1 : *tile.x.scale;
  write_one(tile.out, column, tile.factor * (total * scale));
}

std::vector<SumTile> tiles_of(std::span<const ChainStep> steps) {
  std::vector<SumTile> tiles;
  for (const ChainStep& each : steps) {
    const Launch& launch = each.launch;
    View x = view_of(launch.in(0));
    int64_t n = launch.in(0).shape.back();
    for (int64_t column = 0; column < n; column += kColumns) {
      tiles.push_back(
          {x, output_of(launch), launch.factor(), x.count / n, n, packs_eight(x, n), column});
    }
  }
  return tiles;
}

class Sums : public Chain {
 public:
  Sums(const Device& device, std::span<const ChainStep> steps) : tiles_(device, tiles_of(steps)) {}

  void run(uint64_t) override {
    sum_all<<<tiles_.count(), kThreads, 0, stream()>>>(tiles_.data());
    check(cudaGetLastError(), "bundle of sums");
  }

 private:
  DeviceTable<SumTile> tiles_;
};

}  // namespace

bool is_bundled_sum(const OpDef& op, const Launch& launch) {
  // A block walks over all rows of its columns: longer sums are better cut into more parts.
  constexpr int64_t kMostRows = 1 << 15, kMostColumns = 1 << 20;
  if (&op != &sum_op) return false;
  const Shape& shape = launch.in(0).shape;
  const auto& axes = launch.attr<std::vector<int64_t>>("axes");
  if (shape.size() < 2 || axes.size() + 1 != shape.size()) return false;
  if (cpu::is_one_of(shape.size() - 1, axes, shape)) return false;
  int64_t n = shape.back(), count = launch.in(0).count();
  return count > 0 && n <= kMostColumns && count / n <= kMostRows;
}

std::unique_ptr<Chain> bundle_sums(const Device& device, std::span<const ChainStep> steps) {
  return std::make_unique<Sums>(device, steps);
}

}  // namespace sigma1::cuda
