// The gradients of attention by tensor cores, in two launches. This one goes through the keys of 16
// queries twice: for three numbers of each row's softmax, then for dq, backwards: the last chunk of
// keys, the only one of a short sequence, is still there. For the other launch it keeps all that it
// has of scores where they are few (attention_kept_mma.cu), or else the numbers of each row, from
// which that launch computes them again (attention_columns_mma.cu).
#include "sigma1/backend/cuda/attention_group_grad.cuh"
#include "sigma1/backend/cuda/attention_queries.cuh"
#include "sigma1/backend/cuda/attention_row_stats.cuh"
#include "sigma1/backend/cuda/attention_tall.cuh"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {
namespace {

// A block of queries with their gradients.
template <class Size>
struct GradBlock : QueryBlock<Size> {
  using Code = typename Size::Code;
  using Block = QueryBlock<Size>;
  using Scores = typename Block::Scores;
  using Block::a, Block::at, Block::i0, Block::part;

  __device__ GradBlock(const Attention& of, float4* shared) : Block(of, shared) {}

  // Logits, and the gradients of probabilities, once the copies have come.
  __device__ void score(int j0, Scores& scores, Scores& dscores) const {
    LeftRows<Size> dy = this->left_rows(a.dy);
    typename Block::Queries q = this->queries();
    wait_copies<1>();
    __syncthreads();
    if (!this->has_keys(j0)) return;
#pragma unroll
    for (int t = 0; t < Block::kTiles; ++t) {
#pragma unroll
      for (int n = 0; n < 4; ++n) scores[t][n] = dscores[t][n] = 0;
    }
    add_warp_dots<Size, Block::kTiles>(dy, this->dotted(), dscores);
    if (a.has_relative) this->add_skewed(q, scores);
    wait_copies<0>();
    __syncwarp();
    add_warp_dots<Size, Block::kTiles>(q, this->summed(), scores);
    this->finish_scores(j0, scores, &dscores);
  }
  // From what each warp has of them; kept for the other launch too. Returns the power of two for
  // the gradients of logits of all 16 rows.
  __device__ Power find_rows(const RowStats (&mine)[2], const GradRooms& rooms) const {
    keep_stats(mine, this->stats() + part * kOwned);
    __syncthreads();
    float bound = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int i = i0 + tile_row(2 * half);
      RowGrad row = found_row(half);
      bool keeps = part == 0 && lane_of_warp() % 4 == 0 && i < a.tq;
      if (keeps) rooms.rows[at.pair * a.tq + i] = row;
      bound = fmaxf(bound, row.bound);
    }
    Power power(largest_of_rows(bound));
    if (threadIdx.x == 0 && rooms.kept.columns > 0) {
      rooms.kept.inverses(at)[i0 / kOwned] = power.inverse;
    }
    return power;
  }
  // Each time anew, which costs less than registers.
  __device__ RowGrad found_row(int half) const {
    const float4* stats = this->stats() + tile_row(2 * half);
    return row_grad<kWarps>(kWarps, [&](int of_part) { return stats[of_part * kOwned]; });
  }
  // Of the warp's keys.
  __device__ void keep_scores(const KeptScores& kept, int j0, const Scores& scores,
                              const Scores& dscores) const {
    int j = j0 + part * Block::kRun + tile_column(0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int i = i0 + tile_row(2 * half);
      int64_t row = kept.start(at) + i * kept.columns;
      auto* weights = static_cast<Code*>(kept.weights) + row + j;
      auto* dweights = static_cast<Code*>(kept.dweights) + row + j;
      auto* by_distance = static_cast<Code*>(kept.by_distance) + row + (i - j);
#pragma unroll
      for (int t = 0; t < Block::kTiles; ++t) {
        Two<Size>(scores[t][2 * half], scores[t][2 * half + 1]).store(weights + t * 8);
        Two<Size> two(dscores[t][2 * half], dscores[t][2 * half + 1]);
        two.store(dweights + t * 8);
        if (!a.has_relative) continue;
        int distance = i - j - t * 8;
        if (distance >= 0) by_distance[-t * 8] = two.first();
        if (distance >= 1) by_distance[-t * 8 - 1] = two.second();
      }
    }
    if (a.has_relative && j0 == 0 && part == 0) keep_zeros(kept);
  }
  // Of distances that are too long for a query, but not for the last of the 16.
  __device__ void keep_zeros(const KeptScores& kept) const {
    int row = lane_of_warp() / 2, first = lane_of_warp() % 2 * 8;
    Code* to =
        static_cast<Code*>(kept.by_distance) + kept.start(at) + (i0 + row) * kept.columns + i0;
#pragma unroll
    for (int n = first; n < first + 8; ++n) {
      if (n > row) to[n] = 0;
    }
  }
  // What the warp's keys add to the gradients of its queries.
  __device__ void add_keys(const Scores& dscores, Tiles<Size::kTiles>& sums) const {
#pragma unroll
    for (int t = 0; t < Block::kTiles; t += 2) {
      Factor<Size> weights(dscores[t], dscores[t + 1]);
      add_warp_products<Size>(weights, this->summed() + t * 8 * Size::kStride, sums);
    }
    if (!a.has_relative) return;
    Band<Size> band{reinterpret_cast<Code*>(this->skew())};
    band.keep(dscores);
    band.add_to(this->distances(), sums);
  }
};

template <class Size>
__global__ void __launch_bounds__(kThreads, Size::kBlocksOfSm)
    grad_queries(Attention a, GradRooms rooms, Gradient dq) {
  using Block = GradBlock<Size>;
  extern __shared__ float4 shared[];
  let_next_begin();
  Block block(a, shared);
  if (blockIdx.x == 0 && a.has_relative) {
    for (int64_t i = threadIdx.x; i < a.heads * rooms.tiles; i += kThreads) rooms.arrived[i] = 0;
  }
  RowStats stats[2];
  typename Block::Scores scores, dscores;
  Tiles<Size::kTiles> results = {};
  Power power(0);
  int last = (block.seen - 1) / Block::kChunk;
  // There and back in one loop: its instructions have to be fetched.
  for (int visit = 0; visit <= 2 * last; ++visit) {
    int j0 = min(visit, 2 * last - visit) * Block::kChunk;
    if (visit > 0) __syncthreads();
    block.copy_chunk(j0, a.v, a.k);
    block.score(j0, scores, dscores);
    bool has_keys = block.has_keys(j0);
    if (visit <= last && has_keys) add_stats(scores, dscores, stats);
    if (visit == last) power = block.find_rows(stats, rooms);
    if (visit < last || !has_keys) continue;
    const RowGrad rows[] = {block.found_row(0), block.found_row(1)};
    softmax_grad(rows, power.scale, scores, dscores);
    if (rooms.kept.columns > 0) block.keep_scores(rooms.kept, j0, scores, dscores);
    block.add_keys(dscores, results);
  }
  float factor = power.inverse * dq.factor;
  sum_parts<Size>(block.room, results, [&](int row, int x, float2 two) {
    two = make_float2(two.x * factor, two.y * factor);
    store_two(a, block.at, dq.to, a.tq, block.i0 + row, x, two);
  });
}

}  // namespace

// Bytes of scores that the cache holds beside all else.
constexpr int64_t kMostKept = int64_t{24} << 20;

GradRooms::GradRooms(const Attention& a, std::byte* workspace) : tiles(ceil_div(a.tk, kOwned)) {
  constexpr int64_t kAlignment = 64;
  int64_t used = 0;
  auto take = [&](int64_t count, size_t each) {
    std::byte* at = workspace == nullptr ? nullptr : workspace + used;
    used += ceil_div(count * static_cast<int64_t>(each), kAlignment) * kAlignment;
    return at;
  };
  rows = reinterpret_cast<RowGrad*>(take(a.pairs() * a.tq, sizeof(RowGrad)));
  int64_t sums = a.has_relative ? a.batch * a.tk * a.width : 0;
  by_sample = reinterpret_cast<float*>(take(sums, sizeof(float)));
  arrived = reinterpret_cast<int*>(take(a.has_relative ? a.heads * tiles : 0, sizeof(int)));
  int64_t q_rows = ceil_div(a.tq, kOwned) * kOwned, columns = ceil_div(a.tk, 32) * 32;
  int64_t scores = a.pairs() * q_rows * columns;
  size_t each = a.q.type == Type::fp32 ? sizeof(float) : sizeof(uint16_t);
  if (scores * static_cast<int64_t>(each) * (a.has_relative ? 3 : 2) <= kMostKept) {
    auto take_scores = [&] { return take(scores, each); };
    kept.weights = take_scores();
    kept.dweights = take_scores();
    if (a.has_relative) kept.by_distance = take_scores();
    kept.inverse = reinterpret_cast<float*>(take(a.pairs() * q_rows / kOwned, sizeof(float)));
    kept.rows = static_cast<int>(q_rows);
    kept.columns = static_cast<int>(columns);
  }
  bytes = used;
}

void run_attention_grad_mma(const Launch& launch) {
  Attention a(launch);
  if (uses_tall(a)) return run_attention_grad_tall(launch);
  if (uses_group_grad(launch, a)) return run_group_grad(launch);
  GradRooms rooms(a, launch.workspace.data());
  with_mma_size(a, [&]<class Size>(Size) {
    launch_tiles(grad_queries<Size>, a.pairs() * ceil_div(a.tq, kOwned), QueryBlock<Size>::kFloats,
                 a, rooms, Gradient{view_of(launch.out(0)), a.temperature * launch.factor(0)});
  });
  ColumnGrads to{{view_of(launch.out(1)), a.temperature * launch.factor(1)},
                 {view_of(launch.out(2)), launch.factor(2)},
                 {}};
  if (a.has_relative) to.distances = {view_of(launch.out(3)), a.temperature * launch.factor(3)};
  if (rooms.kept.columns > 0) {
    run_kept_grads(a, rooms, to);
  } else {
    run_column_grads(a, rooms, to);
  }
}

}  // namespace sigma1::cuda
