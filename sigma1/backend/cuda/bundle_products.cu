// Matrix products of 16 bits or fewer: a block has a tile of 128×128 results, each of its groups of
// warps a part of the sum, on tensor cores with fp32 sums; the parts are added up in their order
// through shared memory. Large tiles read the operands few times. Where there are fewer tiles than
// multiprocessors, a cluster of blocks shares a tile in the same way.
#include <cooperative_groups.h>

#include <algorithm>

#include "sigma1/backend/cuda/bundle_kinds.cuh"
#include "sigma1/backend/cuda/four.cuh"
#include "sigma1/backend/cuda/slabs.cuh"
#include "sigma1/base/error.h"
#include "sigma1/ops/linear.h"

namespace sigma1::cuda {
namespace {

using namespace slabs;

constexpr int kStages = 6;      // slabs of a group in shared memory
constexpr int kGroups = 2;      // of a block, which share its sum
constexpr int kMostBlocks = 4;  // that share a tile
constexpr int kBlockThreads = kGroups * kGroupThreads;
constexpr uint32_t kGroupBytes = kStages * 2 * kSlabBytes;
constexpr int kGroupFloats = kGroupBytes / sizeof(float);
constexpr int kSharedBytes = kGroups * kGroupBytes;
static_assert(kTile * kTile <= kGroupFloats);  // its sum lies where its slabs did

// c[m, n] = factor · a · b; a is stored as [k, m], or [m, k] where `along` the sum; b as [k, n].
struct ProductTask {
  Operand a, b;
  Output out;
  float factor;
  int k;
  bool along;
};

// All of its product's fields are there, to be had with one access.
struct ProductTile {
  ProductTask task;
  int row, column;
};

// Of this thread's group.
__device__ inline int group_of() { return static_cast<int>(threadIdx.x) / kGroupThreads; }
__device__ inline void sync_group() {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group_of()), "n"(kGroupThreads) : "memory");
}

// The group's part of the sum, one of `parts`.
template <class Element, bool kAlong>
__device__ void add_terms(const ProductTile& tile, int part, int parts, uint32_t slabs,
                          Sums& sums) {
  const ProductTask& task = tile.task;
  Quarter q;
  int all = (task.k + kDepth - 1) / kDepth, each = (all + parts - 1) / parts;
  int begin = min(part * each, all), count = min(each, all - begin);
  int terms = task.k - begin * kDepth;
  __shared__ Rows rows_of_a, rows_of_b;
  Source<kAlong> a(task.a, task.k, tile.row, begin * kDepth, rows_of_a);
  Source<false> b(task.b, task.k, tile.column, begin * kDepth, rows_of_b);
  auto slab = [&](int i) { return slabs + i % kStages * 2 * kSlabBytes; };
  auto bring = [&](int i) {
    if (i < count) {
      int left = terms - i * kDepth;
      a.fetch(slab(i), left);
      b.fetch(slab(i) + kSlabBytes, left);
    }
    commit_copies();
  };
  Places<kAlong> places(q);
  bool has_results = tile.row + q.row < task.a.outer && tile.column + q.column < task.b.outer;
  for (int i = 0; i < kStages - 1; ++i) bring(i);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    wait_copies<kStages - 2>();
    sync_group();  // slab i has come for all, and all are done with slab i − 1
    bring(i + kStages - 1);
    if (has_results) add_slab<Element>(slab(i), places, sums);
  }
  wait_copies<0>();
  sync_group();
}

// Where a partial sum lies: rows moved apart, so that a warp's stores go to different banks.
__device__ inline int partial_place(int row, int column) {
  return row * kTile + (column ^ (row % 8 * 8));
}

__device__ inline void keep_sums(const Sums& sums, float* partial) {
  Quarter q;
#pragma unroll
  for (int i = 0; i < kWarpTile / 16; ++i) {
#pragma unroll
    for (int j = 0; j < kWarpTile / 8; ++j) {
      int row = q.row + 16 * i + q.lane / 4, column = q.column + 8 * j + q.lane % 4 * 2;
      const float(&d)[4] = sums[i][j];
      *reinterpret_cast<float2*>(partial + partial_place(row, column)) = {d[0], d[1]};
      *reinterpret_cast<float2*>(partial + partial_place(row + 8, column)) = {d[2], d[3]};
    }
  }
}

// What all groups of all blocks found, in their order.
template <class Cluster>
__device__ Four sum_parts(float* partials, int place, Cluster& cluster) {
  Four sum{};
  for (unsigned block = 0; block < cluster.num_blocks(); ++block) {
    const float* theirs = cluster.map_shared_rank(partials, block) + place;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      float4 part = *reinterpret_cast<const float4*>(theirs + group * kGroupFloats);
      sum = {sum.at[0] + part.x, sum.at[1] + part.y, sum.at[2] + part.z, sum.at[3] + part.w};
    }
  }
  return sum;
}

// This block's share of the tile's rows.
template <class Cluster>
__device__ void write_rows(const ProductTile& tile, float* partials, Cluster& cluster) {
  constexpr int kFours = kTile / 4;
  const ProductTask& task = tile.task;
  const Output out = task.out;
  float factor = task.factor;
  for (const float* scale : {task.a.scale, task.b.scale}) factor *= scale ? *scale : 1;
  int rows = kTile / static_cast<int>(cluster.num_blocks());
  int first = static_cast<int>(cluster.block_rank()) * rows;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < rows * kFours; i += kBlockThreads) {
    int row = first + i / kFours, column = i % kFours * 4;
    if (tile.row + row >= task.a.outer || tile.column + column >= task.b.outer) continue;
    Four sum = sum_parts(partials, partial_place(row, column), cluster);
    for (float& each : sum.at) each *= factor;
    write(out, int64_t{tile.row + row} * task.b.outer + tile.column + column, sum);
  }
}

template <class Element>
__device__ void add_terms(const ProductTile& tile, int part, int parts, uint32_t slabs,
                          Sums& sums) {
  if (tile.task.along) {
    add_terms<Element, true>(tile, part, parts, slabs, sums);
  } else {
    add_terms<Element, false>(tile, part, parts, slabs, sums);
  }
}

__global__ void __launch_bounds__(kBlockThreads, 1) multiply_all(const ProductTile* tiles) {
  extern __shared__ __align__(128) float partials[];  // first the slabs
  auto cluster = cooperative_groups::this_cluster();
  const int blocks = static_cast<int>(cluster.num_blocks());
  const ProductTile& tile = tiles[blockIdx.x / blocks];
  float* partial = partials + group_of() * kGroupFloats;
  Sums sums = {};
  const int part = static_cast<int>(cluster.block_rank()) * kGroups + group_of();
  if (tile.task.a.type == Type::bf16) {
    add_terms<__nv_bfloat16>(tile, part, kGroups * blocks, shared_address(partial), sums);
  } else {
    add_terms<__half>(tile, part, kGroups * blocks, shared_address(partial), sums);
  }
  keep_sums(sums, partial);
  cluster.sync();
  write_rows(tile, partials, cluster);
  cluster.sync();  // until nobody reads this block's memory any more
}

struct Sizes {
  int64_t m, n, k, count;
};

Sizes sizes_of(const Launch& launch) {
  const Shape &x = launch.in(0).shape, &w = launch.in(1).shape;
  bool left = launch.attr<bool>("transpose_left");
  int64_t count = element_count(Shape(x.begin(), x.end() - 2));
  int64_t m = x[x.size() - (left ? 1 : 2)], k = x[x.size() - (left ? 2 : 1)];
  // One W and rows that follow each other: a single tall product.
  if (w.size() == 2 && !left) return {count * m, w.back(), k, 1};
  return {m, w.back(), k, count};
}

bool fits_fp16(Type type) { return type == Type::fp16 || type == Type::e4m3 || type == Type::e5m2; }

Operand operand_of(const Buffer& buffer, int64_t outer) {
  View view = view_of(buffer);
  if (reinterpret_cast<uintptr_t>(view.data) % 16 != 0) throw Bug("an operand is not on 16 bytes");
  return {static_cast<const std::byte*>(view.data), view.type, view.scale, static_cast<int>(outer)};
}

ProductTask task_of(const Launch& launch) {
  auto [m, n, k, count] = sizes_of(launch);
  return {operand_of(launch.in(0), m), operand_of(launch.in(1), n),
          output_of(launch),           launch.factor(),
          static_cast<int>(k),         !launch.attr<bool>("transpose_left")};
}

std::vector<ProductTask> tasks_of(std::span<const ChainStep> steps) {
  std::vector<ProductTask> tasks;
  for (const ChainStep& each : steps) tasks.push_back(task_of(each.launch));
  // Long sums first: what is left for the end is short.
  std::ranges::stable_sort(tasks, [](const auto& a, const auto& b) { return a.k > b.k; });
  return tasks;
}

std::vector<ProductTile> tiles_of(std::span<const ChainStep> steps) {
  std::vector<ProductTile> tiles;
  for (const ProductTask& task : tasks_of(steps)) {
    for (int row = 0; row < task.a.outer; row += kTile) {
      for (int column = 0; column < task.b.outer; column += kTile) {
        tiles.push_back({task, row, column});
      }
    }
  }
  return tiles;
}

class Products : public Chain {
 public:
  Products(const Device& device, std::span<const ChainStep> steps)
      : tiles_(device, tiles_of(steps)) {
    check(cudaFuncSetAttribute(multiply_all, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               kSharedBytes),
          "bundle of products");
    // Decided by sizes alone, as the order of a sum is: a GPU has at least so many.
    constexpr unsigned kMultiprocessors = 128;
    while (blocks_ < kMostBlocks && 2 * blocks_ * tiles_.count() <= kMultiprocessors) blocks_ *= 2;
  }

  void run(uint64_t) override {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {blocks_, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = tiles_.count() * blocks_;
    config.blockDim = kBlockThreads;
    config.dynamicSmemBytes = kSharedBytes;
    config.stream = stream();
    config.attrs = &cluster;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, multiply_all, tiles_.data()), "bundle of products");
  }

 private:
  DeviceTable<ProductTile> tiles_;
  unsigned blocks_ = 1;  // of a tile
};

}  // namespace

bool is_bundled_product(const OpDef& op, const Launch& launch) {
  // Above, the library's tiles fill the GPU by themselves. What is not transposed has its rows
  // among the results, and belongs to the rows' own chains when there are many.
  constexpr int64_t kMostResults = 512 * 1024, kMostStraight = 128 * 1024;
  if (&op != &matmul_op || launch.attr<bool>("transpose_right")) return false;
  bool left = launch.attr<bool>("transpose_left");
  auto [m, n, k, count] = sizes_of(launch);
  Type a = view_of(launch.in(0), true).type, b = view_of(launch.in(1), true).type;
  bool types_fit = (fits_fp16(a) && fits_fp16(b)) || (a == Type::bf16 && b == Type::bf16);
  bool whole_units = m % kUnit == 0 && n % kUnit == 0 && k % kUnit == 0;
  bool small = m * n <= (left ? kMostResults : kMostStraight) && k < int64_t{1} << 30;
  return types_fit && whole_units && small && count == 1 && m * n * k > 0;
}

std::unique_ptr<Chain> bundle_products(const Device& device, std::span<const ChainStep> steps) {
  return std::make_unique<Products>(device, steps);
}

}  // namespace sigma1::cuda
