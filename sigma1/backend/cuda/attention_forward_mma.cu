// Attention by tensor cores: as attention.cu does, the largest logit and sum so far are kept, here
// by each warp for its keys; what they have is put together at the end.
#include "sigma1/backend/cuda/attention_queries.cuh"
#include "sigma1/backend/cuda/attention_tall.cuh"

namespace sigma1::cuda {
namespace {

// Of a row's softmax, a warp's keys.
struct RowPart {
  float largest = -INFINITY;  // logit, in units of log 2
  float sum = 0;              // of the weights 2^(logit − largest)
};

// Logits give way to weights 2^(logit − largest); what was summed before shrinks.
template <int kTiles, int kResults>
__device__ void advance_softmax(Tiles<kTiles>& scores, RowPart (&rows)[2],
                                Tiles<kResults>& results) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    RowPart& row = rows[half];
    float most = row.largest, total = 0;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      most = fmaxf(most, fmaxf(scores[t][2 * half], scores[t][2 * half + 1]));
    }
    most = quad_max(most);
    float reference = finite_largest(most);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int n = 2 * half; n < 2 * half + 2; ++n) {
        scores[t][n] = fast_exp2(scores[t][n] - reference);
        total += scores[t][n];
      }
    }
    float shrink = fast_exp2(row.largest - reference);
    row.sum = row.sum * shrink + quad_sum(total);
    row.largest = most;
#pragma unroll
    for (int t = 0; t < kResults; ++t) {
      results[t][2 * half] *= shrink;
      results[t][2 * half + 1] *= shrink;
    }
  }
}

// What each warp's results for a row count.
struct PartWeights {
  float shares[kWarps];

  // From (largest, sum, …) of the row in the first part on.
  __device__ PartWeights(const float4* stats, float factor) {
    float most = -INFINITY, sum = 0;
#pragma unroll
    for (int p = 0; p < kWarps; ++p) {
      shares[p] = stats[p * kOwned].x;
      most = fmaxf(most, shares[p]);
    }
    float reference = finite_largest(most);
#pragma unroll
    for (int p = 0; p < kWarps; ++p) {
      shares[p] = fast_exp2(shares[p] - reference);
      sum += stats[p * kOwned].y * shares[p];
    }
    float share = sum == 0 ? 0 : __fdividef(factor, sum);
#pragma unroll
    for (int p = 0; p < kWarps; ++p) shares[p] *= share;
  }
  __device__ float operator()(int part) const { return shares[part]; }
};

template <class Size>
__global__ void __launch_bounds__(kThreads, Size::kBlocksOfSm)
    attend(Attention a, View y, float factor) {
  using Block = QueryBlock<Size>;
  extern __shared__ float4 shared[];
  Block block(a, shared);
  RowPart rows[2];
  Tiles<Size::kTiles> results = {};
  for (int j0 = 0; j0 < block.seen; j0 += Block::kChunk) {
    if (j0 > 0) __syncthreads();
    block.copy_chunk(j0, a.k, a.v);
    typename Block::Queries q = block.queries();
    wait_copies<1>();
    __syncthreads();
    if (!block.has_keys(j0)) continue;
    typename Block::Scores scores = {};
    add_warp_dots<Size, Block::kTiles>(q, block.dotted(), scores);
    if (a.has_relative) block.add_skewed(q, scores);
    block.finish_scores(j0, scores);
    advance_softmax(scores, rows, results);
    wait_copies<0>();
    __syncwarp();
#pragma unroll
    for (int t = 0; t < Block::kTiles; t += 2) {
      Factor<Size> weights(scores[t], scores[t + 1]);
      add_warp_products<Size>(weights, block.summed() + t * 8 * Size::kStride, results);
    }
  }
  if (lane_of_warp() % 4 == 0) {
    float4* stats = block.stats() + block.part * kOwned + tile_row(0);
    stats[0] = make_float4(rows[0].largest, rows[0].sum, 0, 0);
    stats[8] = make_float4(rows[1].largest, rows[1].sum, 0, 0);
  }
  auto weights = [&](int row) { return PartWeights(block.stats() + row, factor); };
  sum_parts<Size>(block.room, results, weights, [&](int row, int x, float2 two) {
    store_two(a, block.at, y, a.tq, block.i0 + row, x, two);
  });
}

}  // namespace

bool uses_tensor_cores(const Attention& a) {
  constexpr int64_t kLongest = int64_t{1} << 30;
  constexpr uintptr_t kAlignment = 16;
  bool is_fp32 = a.q.type == Type::fp32;
  if (!is_fp32 && a.q.type != Type::fp16 && a.q.type != Type::bf16) return false;
  int unit = is_fp32 ? 4 : 16;
  if (a.d % unit != 0 || a.d > 128 || max(a.tq, a.tk) > kLongest) return false;
  auto fits = [&](const View& view) {
    return view.type == a.q.type && view.scale == nullptr &&
           reinterpret_cast<uintptr_t>(view.data) % kAlignment == 0;
  };
  if (a.has_relative && !fits(a.relative)) return false;
  return fits(a.q) && fits(a.k) && fits(a.v) && (a.dy.data == nullptr || fits(a.dy));
}

void run_attention_mma(const Launch& launch) {
  Attention a(launch);
  if (uses_tall(a)) return run_attention_tall(launch);
  with_mma_size(a, [&]<class Size>(Size) {
    launch_tiles(attend<Size>, a.pairs() * ((a.tq + kOwned - 1) / kOwned),
                 QueryBlock<Size>::kFloats, a, view_of(launch.out()), launch.factor());
  });
}

}  // namespace sigma1::cuda
