// Attention of many long rows by tensor cores: see attention_tall.cuh.
#include "sigma1/backend/cuda/attention_tall_queries.cuh"

namespace sigma1::cuda {
namespace {

template <class Number, int kNumbers>
using ForwardSize = TallSize<Number, kNumbers, 32, kNumbers <= 64 ? 32 : 64>;

template <class Size>
constexpr int kForwardBlocksOfSm = Size::kHead <= 64 ? 3 : 2;

// A row's softmax so far; the sum is of the lane's keys.
struct TallRow {
  float reference = -INFINITY;  // a score, without the temperature
  float sum = 0;
};

// Takes new references; what was summed before shrinks.
template <class Size>
__device__ void shrink(const typename Size::Scores& scores, float scale,
                       TallRow (&rows)[Size::kM][2], typename Size::Results& results) {
#pragma unroll
  for (int r = 0; r < 2 * Size::kM; ++r) {
    int m = r / 2, half = r % 2;
    TallRow& row = rows[m][half];
    float most = quad_max(row_most<Size>(scores, m, half));
    most = fmaxf(most, row.reference);
    float factor = fast_exp2((row.reference - finite_largest(most)) * scale);
    row.reference = most;
    row.sum *= factor;
#pragma unroll
    for (int t = 0; t < Size::kTiles; ++t) {
      results[m][t][2 * half] *= factor;
      results[m][t][2 * half + 1] *= factor;
    }
  }
}

// Scores give way to weights.
template <class Size>
__device__ void advance_softmax(typename Size::Scores& scores, float scale,
                                TallRow (&rows)[Size::kM][2], typename Size::Results& results) {
  float slack = kSlack / scale;
  bool grows = false;
#pragma unroll
  for (int r = 0; r < 2 * Size::kM; ++r) {
    float most = row_most<Size>(scores, r / 2, r % 2);
    grows = grows || most > rows[r / 2][r % 2].reference + slack;
  }
  if (__any_sync(~0U, grows)) shrink<Size>(scores, scale, rows, results);
#pragma unroll
  for (int r = 0; r < 2 * Size::kM; ++r) {
    int m = r / 2, half = r % 2;
    TallRow& row = rows[m][half];
    float shift = kWeightShift - finite_largest(row.reference) * scale;
#pragma unroll
    for (int t = 0; t < Size::kN; ++t) {
#pragma unroll
      for (int n = 2 * half; n < 2 * half + 2; ++n) {
        scores[m][t][n] = fast_exp2(fmaf(scores[m][t][n], scale, shift));
        row.sum += scores[m][t][n];
      }
    }
  }
}

// Queries stay in registers where there is room for them.
template <class Size, int kOwned>
__device__ auto left_queries(const TallQueries<Size, kOwned>& block) {
  RoomLeft<Size> room{lane_of_left<Size>(shared_address(block.owned(0)))};
  if constexpr (Size::kHead <= 64) {
    KeptLeft<Size> kept;
#pragma unroll
    for (int x = 0; x < Size::kHead; x += 16) room.step(x, kept.at[x / 16]);
    return kept;
  } else {
    return room;
  }
}

template <class Size>
__global__ void __launch_bounds__(Size::kBlockThreads, kForwardBlocksOfSm<Size>)
    attend_tall(Attention a, TallGrid grid, View y, float factor) {
  TallQueries<Size, 1> block(a, grid);
  block.copy_owned(0, a.q);
  int first = block.begin();
  auto q = left_queries(block);
  float scale = a.temperature * kLog2e;
  TallRow rows[Size::kM][2];
  typename Size::Results results = {};
  block.for_each_step(first, [&](int key, int row, int stage, uint64_t bits) {
    typename Size::Scores scores = {};
    uint32_t offset = row * Size::kRowBytes;
    add_tall_dots<Size>(q, lane_of_right<Size>(block.tile(stage, 0) + offset), scores);
    block.hide(key, bits, scores);
    advance_softmax<Size>(scores, scale, rows, results);
    uint32_t values = lane_of_left<Size>(block.tile(stage, 1) + offset);
#pragma unroll
    for (int t = 0; t < Size::kN; t += 2) {
      uint32_t weights[Size::kM][4];
      round_weights<Size>(scores, t, 0, weights);
      add_tall_products<Size>(weights, values + t * 8 * Size::kRowBytes, results);
    }
  });
  float factors[Size::kM][2];
#pragma unroll
  for (int r = 0; r < 2 * Size::kM; ++r) {
    float sum = quad_sum(rows[r / 2][r % 2].sum);
    factors[r / 2][r % 2] = sum == 0 ? 0 : factor / sum;
  }
  store_tall<Size>(a, block.at, y, a.tq, block.warp_i(), block.owned(0), factors, results);
}

}  // namespace

bool uses_tall(const Attention& a) {
  if (a.q.type != Type::fp16 && a.q.type != Type::bf16) return false;
  constexpr int64_t kFewest = 100, kMostMasked = int64_t{1} << 16;
  if (a.has_relative || min(a.tq, a.tk) < kTallRows) return false;
  if (a.has_mask && a.tk > kMostMasked) return false;  // bits of a mask are in shared memory
  return a.pairs() * ceil_div(min(a.tq, a.tk), kTallRows) >= kFewest;
}

void run_attention_tall(const Launch& launch) {
  Attention a(launch);
  with_tall_size(a, [&]<class Small>(Small) {
    using Size = ForwardSize<typename Small::Element, Small::kHead>;
    TallGrid grid(a, a.tq, 2 * a.tk * a.d * kElementBytes);
    launch_with_room("attention", attend_tall<Size>, grid.blocks(a), Size::kBlockThreads,
                     TallQueries<Size, 1>::floats(a), a, grid, view_of(launch.out()),
                     launch.factor());
  });
}

}  // namespace sigma1::cuda
