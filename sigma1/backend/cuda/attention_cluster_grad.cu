// The gradients of attention with relative positions, of sequences of up to 256 positions, in one
// launch: a cluster of up to eight blocks has one head of one sample, so that every multiprocessor
// of a large GPU has a block, and what is summed over queries passes between blocks through their
// shared memory instead of a second launch.
//
// Positions are tiles of 16. A block has two tiles, the one of its number from the start and the
// one from the end: as queries they see 17 tiles of keys, as keys they are seen by 17 tiles of
// queries, whichever block it is. A warp has one pair of tiles, its unit, of queries and of keys as
// far as scores go: with q_i·r_{i−j} it finds those of 16 distances, which two units read skewed.
// Probabilities and gradients of logits then go, transposed as a product needs them, to the block
// that has these keys; the latter also to the one that has these distances. Meanwhile dq is
// computed. A warp of these sums has 16 numbers of 16 rows, so that nothing is left to be added
// up, but gradients by distance over samples: by a small launch, in their order.
#include "sigma1/backend/cuda/attention_cluster_grad.cuh"

#include <bit>

#include "sigma1/backend/cuda/attention_cluster_block.cuh"
#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {
namespace {

using namespace cluster_grad;

template <class Size>
__global__ void __launch_bounds__(kBlockThreads, 1) grad_by_cluster(Attention a, Outputs to) {
  extern __shared__ float4 shared[];
  auto cluster = cooperative_groups::this_cluster();
  cluster.barrier_arrive();  // others may write here
  let_next_begin();
  Block<Size> block(a, shared);
  block.copy_inputs();
  Tiles<2> scores = {}, dscores = {};
  wait_copies<2>();
  __syncthreads();
  if (block.exists) block.score_keys(scores);
  wait_copies<1>();
  __syncthreads();
  if (block.exists) {
    block.score_values(dscores);
    block.finish_scores(scores, dscores);
    RowStats stats[2];
    add_stats(scores, dscores, stats);
    keep_stats(stats, block.stats_of(block.column));
  }
  __syncthreads();
  block.copy_grads();
  cluster.barrier_wait();
  if (block.exists) block.share_weights(scores, dscores);
  __syncthreads();
  if (block.exists) block.share_distances();
  cluster.barrier_arrive();
  block.sum_keys(to.queries);
  wait_copies<0>();
  __syncthreads();
  cluster.barrier_wait();
  block.sum_queries(to.columns);
}

constexpr int kSumThreads = 128;

// Two neighbours a thread, in the order of samples.
__global__ void __launch_bounds__(kSumThreads)
    sum_samples(const float2* samples, int64_t batch, int64_t pairs, Gradient to) {
  wait_for_last();
  int64_t i = int64_t{blockIdx.x} * kSumThreads + threadIdx.x;
  if (i >= pairs) return;
  float2 total = make_float2(0, 0);
#pragma unroll 8
  for (int64_t sample = 0; sample < batch; ++sample) {
    float2 each = __ldcg(samples + sample * pairs + i);
    total.x += each.x, total.y += each.y;
  }
  store_two(to.to, 2 * i, make_float2(total.x * to.factor, total.y * to.factor));
}

template <class Size>
void launch_clusters(const Attention& a, const Outputs& to) {
  auto tiles = static_cast<unsigned>(ceil_div(a.tq, kOwned)),
       blocks = std::bit_ceil((tiles + 1) / 2);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {1, blocks, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(a.pairs()), blocks);
  config.blockDim = kBlockThreads;
  config.dynamicSmemBytes = sizeof(Room<Size>);
  config.stream = stream();
  config.attrs = &cluster;
  config.numAttrs = 1;
  static_assert(sizeof(Room<Size>) <= kMostShared);
  allow_most_shared(grad_by_cluster<Size>, "attention");
  check(cudaLaunchKernelEx(&config, grad_by_cluster<Size>, a, to), "attention");
}

}  // namespace

bool uses_cluster_grad(const Launch& launch, const Attention& a) {
  constexpr int kLargestHead = 64;
  const Device* device = launch.out().device;
  if (device == nullptr || !product_choices(*device).attention_clusters) return false;
  bool has_16_bits = a.q.type == Type::fp16 || a.q.type == Type::bf16;
  return has_16_bits && a.has_relative && a.d <= kLargestHead && a.tq <= kMostTiles * kOwned;
}

void run_cluster_grad(const Launch& launch) {
  Attention a(launch);
  float* samples = GradRooms(a, launch.workspace.data()).by_sample;
  int64_t count = a.tk * a.width;
  auto gradient = [&](size_t o, float factor) {
    return Gradient{view_of(launch.out(o)), factor * launch.factor(o)};
  };
  Outputs to{
      gradient(0, a.temperature),
      {gradient(1, a.temperature), gradient(2, 1), {fp32_view(samples, a.batch * count), 1}}};
  if (a.q.type == Type::fp16) {
    launch_clusters<MmaSize<__half, 64>>(a, to);
  } else {
    launch_clusters<MmaSize<__nv_bfloat16, 64>>(a, to);
  }
  Grid grid{static_cast<unsigned>(ceil_div(count / 2, kSumThreads)), kSumThreads};
  launch_early("attention", sum_samples, grid, reinterpret_cast<const float2*>(samples), a.batch,
               count / 2, gradient(3, a.temperature));
}

}  // namespace sigma1::cuda
