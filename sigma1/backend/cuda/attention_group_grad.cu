// The gradients of attention with relative positions, of sequences of up to 256 positions, in one
// launch: a group of up to eight blocks has one head of one sample, so that every multiprocessor of
// a large GPU has a block, and what is summed over queries passes between blocks through the cache
// instead of a second launch.
//
// Positions are tiles of 16. A block has two tiles, the one of its number from the start and the
// one from the end: as queries they see 17 tiles of keys, as keys they are seen by 17 tiles of
// queries, whichever block it is. A warp has one pair of tiles, its unit, of queries and of keys as
// far as scores go: with q_i·r_{i−j} it finds those of 16 distances, which two units read skewed.
// Probabilities and gradients of logits then go, transposed as a product needs them, to the block
// that has these keys; the latter also to the one that has these distances. Meanwhile dq is
// computed. A warp of these sums has 16 numbers of 16 rows, so that nothing is left to be added
// up, but gradients by distance over samples: by a small launch, in their order.
//
// Blocks of a group wait for each other once a head, so all blocks of the launch run at the same
// time, by the GPU's word (a cooperative launch): where there are more heads than fit, a group
// takes one after another. Clusters, whose blocks see each other's shared memory, would need no
// such word, but only 15 of eight blocks fit 132 multiprocessors.
#include "sigma1/backend/cuda/attention_group_grad.cuh"

#include "sigma1/backend/cuda/attention_group_block.cuh"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {
namespace {

using namespace group_grad;

// Groups that have one head each are without the loop, for which much would be computed before the
// first copy.
template <class Size, bool kHasMany>
__global__ void __launch_bounds__(kBlockThreads, 1)
    grad_by_group(Attention a, GroupRooms rooms, Outputs to) {
  extern __shared__ float4 shared[];
  let_next_begin();
  auto group = static_cast<int>(blockIdx.x), pairs = static_cast<int>(a.batch) * a.heads;
  for (int pair = group, turn = 0; pair < pairs; pair += rooms.groups, turn ^= 1) {
    Block<Size> block(a, shared, rooms.parcels_of(group, turn), pair);
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
    if (block.exists) block.share_weights(scores, dscores);
    __syncthreads();
    if (block.exists) block.share_distances();
    __syncthreads();
    if (block.is_messenger()) {
      block.fetch_parcel(rooms.meetings[group]);
    } else {
      block.sum_keys(to.queries);
    }
    wait_copies<0>();
    __syncthreads();
    block.sum_queries(to.columns);
    if (!kHasMany) return;
    __syncthreads();
  }
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

// Fails where not all blocks fit at the same time.
template <class Size>
void launch_groups(const Attention& a, const GroupRooms& rooms, const Outputs& to) {
  static_assert(sizeof(Room<Size>) <= kMostShared && 2 * sizeof(Room<Size>) > kMostShared);
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(rooms.groups), static_cast<unsigned>(rooms.blocks));
  config.blockDim = kBlockThreads;
  config.dynamicSmemBytes = sizeof(Room<Size>);
  config.stream = stream();
  config.attrs = &together;
  config.numAttrs = 1;
  auto kernel = rooms.groups < a.pairs() ? grad_by_group<Size, true> : grad_by_group<Size, false>;
  allow_most_shared(kernel, "attention");
  check(cudaLaunchKernelEx(&config, kernel, a, rooms, to), "attention");
}

// A block fills one's shared memory.
int blocks_at_once() {
  int device = 0, multiprocessors = 0;
  check(cudaGetDevice(&device), "asking for the GPU");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "asking for multiprocessors");
  return multiprocessors;
}

bool suits_groups(const Attention& a) {
  constexpr int kLargestHead = 64;
  bool has_16_bits = a.q.type == Type::fp16 || a.q.type == Type::bf16;
  return has_16_bits && a.has_relative && a.d <= kLargestHead && a.tq <= kMostTiles * kOwned &&
         GroupRooms(a, nullptr, nullptr).groups > 0;
}

}  // namespace

namespace group_grad {

GroupRooms::GroupRooms(const Attention& a, std::byte* workspace, std::byte* state)
    : blocks(static_cast<int>(ceil_div(a.tq, 2 * kOwned))) {
  groups = static_cast<int>(std::min<int64_t>(a.pairs(), blocks_at_once() / blocks));
  int64_t turns = groups < a.pairs() ? 2 : 1, of_all = turns * groups * blocks;
  parcels = reinterpret_cast<Parcel*>(workspace);
  by_sample = reinterpret_cast<float*>(parcels + of_all);
  bytes = of_all * static_cast<int64_t>(sizeof(Parcel)) +
          a.batch * a.tk * a.width * static_cast<int64_t>(sizeof(float));
  meetings = reinterpret_cast<Meeting*>(state);
  state_bytes = groups * static_cast<int64_t>(sizeof(Meeting));
}

}  // namespace group_grad

bool uses_group_grad(const Launch& launch, const Attention& a) {
  return !launch.state.empty() && suits_groups(a);
}

int64_t group_grad_workspace(const Attention& a) {
  return suits_groups(a) ? GroupRooms(a, nullptr, nullptr).bytes : 0;
}

int64_t group_grad_state(const Attention& a) {
  return suits_groups(a) ? GroupRooms(a, nullptr, nullptr).state_bytes : 0;
}

void run_group_grad(const Launch& launch) {
  Attention a(launch);
  GroupRooms rooms(a, launch.workspace.data(), launch.state.data());
  int64_t count = a.tk * a.width;
  auto gradient = [&](size_t o, float factor) {
    return Gradient{view_of(launch.out(o)), factor * launch.factor(o)};
  };
  Outputs to{gradient(0, a.temperature),
             {gradient(1, a.temperature),
              gradient(2, 1),
              {fp32_view(rooms.by_sample, a.batch * count), 1}}};
  if (a.q.type == Type::fp16) {
    launch_groups<MmaSize<__half, 64>>(a, rooms, to);
  } else {
    launch_groups<MmaSize<__nv_bfloat16, 64>>(a, rooms, to);
  }
  Grid grid{static_cast<unsigned>(ceil_div(count / 2, kSumThreads)), kSumThreads};
  launch_early("attention", sum_samples, grid, reinterpret_cast<const float2*>(rooms.by_sample),
               a.batch, count / 2, gradient(3, a.temperature));
}

}  // namespace sigma1::cuda
