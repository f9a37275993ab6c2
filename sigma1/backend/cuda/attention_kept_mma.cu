// The gradients of attention that are summed over queries, by tensor cores, from scores that were
// kept (see attention_grad_mma.cu): dk, dv or the gradients by distance of 32 columns of them are
// one product of those columns, transposed, with q or dy. Two neighbouring warps have 16 columns
// each, and pairs of warps share the queries. Gradients by distance are summed over samples at the
// end, by the last block that comes to them.
// Queries are read while the launch before still runs.
#include "sigma1/backend/cuda/attention_grad_mma.cuh"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {
namespace {

template <class Size>
struct KeptBlock {
  using Element = typename Size::Element;
  using Code = typename Size::Code;
  static constexpr int kColumns = 32, kGroups = kColumns / kOwned, kParts = kWarps / kGroups;
  static constexpr int kChunk = Size::kHead * Size::kBytes <= 256 ? 256 : 128;  // queries
  static constexpr int kStride = kColumns + Size::kEach;  // what is read at once, all banks
  static constexpr int kSteps = kChunk / 16 / kParts;  // of 16 queries that a warp has of a chunk
  static constexpr int kRowsFloats = Size::floats(kChunk * Size::kStride);
  static constexpr int kFloats = kRowsFloats + Size::floats(kChunk * kStride);
  static constexpr int kBlocksOfSm = Size::kHead * Size::kBytes <= 128 ? 3 : 2;
  static_assert(parts_floats<Size>() <= kFloats);

  const Attention& a;
  const KeptScores& kept;
  Pair at;
  int first;  // column
  int group = warp_of_block() % kGroups, part = warp_of_block() / kGroups;
  Element* rows;
  Code* scores;

  __device__ KeptBlock(const Attention& of, const KeptScores& from, const Pair& where, float* room)
      : a(of),
        kept(from),
        at(where),
        first(where.tile * kColumns),
        rows(reinterpret_cast<Element*>(room)),
        scores(reinterpret_cast<Code*>(room + kRowsFloats)) {}

  // Of `count` queries from i0 on. No key or distance is kept beyond those of the 16 queries.
  __device__ void copy_scores(const Code* from, int i0, int count) const {
    constexpr int kEach = Size::kEach, kPieces = kColumns / kEach, kStep = kThreads / kPieces;
    int x = static_cast<int>(threadIdx.x) % kPieces * kEach, column = first + x;
    from += kept.start(at) + column;
    for (int row = static_cast<int>(threadIdx.x) / kPieces; row < count; row += kStep) {
      int i = i0 + row;
      bool inside = !a.causal || column / kOwned <= i / kOwned;
      copy_16_async(scores + row * kStride + x, from + i * kept.columns, inside);
    }
  }
  // totals += Σ over 16 queries of the chunk, times `factor`
  __device__ void add_step(int query, float factor, Tiles<Size::kTiles>& totals) const {
    auto weights = Factor<Size>::transposed(scores + query * kStride + group * kOwned, kStride);
    add_scaled_products<Size>(weights, rows + query * Size::kStride, factor, totals);
  }
  // factor(tile): of 16 queries, the number of their tile given.
  template <class FactorOf>
  __device__ void sum(const View& of_queries, const Code* from, FactorOf factor_of,
                      Tiles<Size::kTiles>& totals) const {
    int begin = a.causal ? first : 0;
    for (int i0 = begin; i0 < a.tq; i0 += kChunk) {
      if (i0 > begin) __syncthreads();
      int count = min(kChunk, kept.rows - i0);
      copy_rows<Size, kThreads>(a, of_queries, at.start(a, a.tq), i0, count, a.tq, rows);
      wait_for_last();
      copy_scores(from, i0, count);
      commit_copies();
      float factors[kSteps];
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        int tile = i0 / kOwned + part + step * kParts;
        factors[step] = factor_of(min(tile, kept.rows / kOwned - 1));
      }
      wait_copies<0>();
      __syncthreads();
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        int query = (part + step * kParts) * 16;
        if (query < count) add_step(query, factors[step], totals);
      }
    }
  }
};

enum Columns { kOfKeys, kOfValues, kOfDistances };

// What each kind of columns is a sum of, and where it goes.
struct Sums {
  const void* scores;
  Gradient to;
};
struct AllSums {
  Sums of[3];
};

// Distances take longest, and the first columns have the most queries.
template <class Size>
__global__ void __launch_bounds__(kThreads, KeptBlock<Size>::kBlocksOfSm)
    sum_kept(Attention a, GradRooms rooms, AllSums sums, Gradient distances) {
  using Block = KeptBlock<Size>;
  extern __shared__ float4 shared[];
  auto* room = reinterpret_cast<float*>(shared);
  Pair at(a);
  int kinds = a.has_relative ? 3 : 2, kind = kinds - 1 - at.tile % kinds;
  at.tile /= kinds;
  Block block(a, rooms.kept, at, room);
  Tiles<Size::kTiles> totals = {};
  const Sums& own = sums.of[kind];
  bool of_values = kind == kOfValues;
  const volatile float* inverses = rooms.kept.inverses(at);  // not to be read too early
  auto factor_of = [&](int tile) { return of_values ? kOfWeights : inverses[tile]; };
  const View& of_queries = of_values ? a.dy : a.q;
  block.sum(of_queries, static_cast<const typename Size::Code*>(own.scores), factor_of, totals);
  sum_parts<Size, Block::kGroups>(room, totals, [&](int row, int x, float2 two) {
    two = make_float2(two.x * own.to.factor, two.y * own.to.factor);
    store_two(a, at, own.to.to, a.tk, block.first + row, x, two);
  });
  if (kind == kOfDistances) add_samples(a, at, rooms, Block::kColumns, distances);
}

}  // namespace

void run_kept_grads(const Attention& a, const GradRooms& rooms, const ColumnGrads& to) {
  View by_sample = {rooms.by_sample, Type::fp32, false, nullptr, a.batch * a.tk * a.width};
  AllSums sums{{{rooms.kept.dweights, to.keys},
                {rooms.kept.weights, to.values},
                {rooms.kept.by_distance, {by_sample, 1}}}};
  with_mma_size(a, [&]<class Size>(Size) {
    using Block = KeptBlock<Size>;
    int64_t tiles = ceil_div(a.tk, Block::kColumns) * (a.has_relative ? 3 : 2);
    allow_most_shared(sum_kept<Size>, "attention");
    Grid grid{static_cast<unsigned>(a.pairs() * tiles), kThreads, Block::kFloats * sizeof(float)};
    launch_early("attention", sum_kept<Size>, grid, a, rooms, sums, to.distances);
  });
}

}  // namespace sigma1::cuda
