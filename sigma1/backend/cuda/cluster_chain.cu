#include "sigma1/backend/cuda/cluster_chain.cuh"

#include <map>
#include <mutex>

#include "sigma1/backend/cuda/compile.cuh"
#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {
namespace {

constexpr int kRanks[] = {2, 4};

__global__ void do_nothing() {}

// How many clusters, each block having a multiprocessor to itself, run at the same time: fewer than
// multiprocessors divided by blocks, for a cluster lies within a part of the chip.
int find_clusters_at_once(int ranks) {
  const char* what = "asking for clusters";
  constexpr int kMostOfShared = 128 * 1024;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(ranks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>(ranks)};
  config.blockDim = {512};
  config.dynamicSmemBytes = kMostOfShared;
  config.attrs = &cluster;
  config.numAttrs = 1;
  check(
      cudaFuncSetAttribute(do_nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostOfShared),
      what);
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, do_nothing, &config), what);
  return std::max(1, clusters);
}

int clusters_at_once(int ranks) {
  // Without a GPU plans are those for an H200.
  if (cuda_device_count() == 0) return ranks == 2 ? 66 : 31;
  static std::mutex mutex;
  static std::map<std::pair<int, int>, int> known;  // by device and ranks
  int device = 0;
  check(cudaGetDevice(&device), "asking for the GPU");
  std::lock_guard lock(mutex);
  auto [found, is_new] = known.try_emplace({device, ranks});
  if (is_new) found->second = find_clusters_at_once(ranks);
  return found->second;
}

int64_t rows_of(std::span<const ChainStep> steps) {
  const Buffer& out = steps.front().launch.out();
  return out.count() / out.shape.back();
}

}  // namespace

ClusterShape cluster_shape(int64_t rows) {
  constexpr int kMostOfBlock = 24;
  // What steps take beside what grows with a block's rows is about that of so many.
  constexpr int kRowsBeside = 4;
  int64_t least = 0;
  ClusterShape best;
  for (int ranks : kRanks) {
    for (int of_cluster = 16; of_cluster <= kMostOfBlock * ranks; of_cluster += 16) {
      int64_t clusters = (rows + of_cluster - 1) / of_cluster, at_once = clusters_at_once(ranks);
      int64_t time = (clusters + at_once - 1) / at_once * (of_cluster / ranks + kRowsBeside);
      if (least > 0 && time >= least) continue;
      least = time;
      best = {of_cluster, ranks};
    }
  }
  return best;
}

bool fits_cluster(std::span<const ChainStep> steps) {
  return cluster_source(steps, cluster_shape(rows_of(steps))).has_value();
}

ClusterChain::ClusterChain(std::span<const ChainStep> steps)
    : ClusterChain(steps, cluster_shape(rows_of(steps))) {}

ClusterChain::ClusterChain(std::span<const ChainStep> steps, const ClusterShape& shape)
    : shape_(shape) {
  std::optional<ClusterSource> source = cluster_source(steps, shape);
  if (!source) throw Bug("a chain of {} steps does not fit a cluster", steps.size());
  for (const std::byte* each : source->memory) {
    if (reinterpret_cast<uintptr_t>(each) % 16 == 0) continue;
    throw Bug("a cluster chain's tensor does not begin on 16 bytes");
  }
  int64_t rows = rows_of(steps);
  blocks_ = static_cast<unsigned>(shape.blocks(rows));
  shared_bytes_ = static_cast<size_t>(source->shared_bytes);
  parameters_ = source->parameters(rows);
  kernel_ = compiled_kernel(source->text, "cluster_chain");
}

void ClusterChain::run(uint64_t) {
  void* arguments[] = {parameters_.data()};
  cudaLaunchConfig_t config{};
  config.gridDim = {blocks_};
  config.blockDim = {static_cast<unsigned>(shape_.threads())};
  config.dynamicSmemBytes = shared_bytes_;
  config.stream = stream();
  check(cudaLaunchKernelExC(&config, kernel_, arguments), "cluster chain");
}

}  // namespace sigma1::cuda
