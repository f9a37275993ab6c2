// Attention of many long rows by tensor cores: see attention_tall.cuh.
#include "sigma1/backend/cuda/attention_tall_queries.cuh"

namespace sigma1::cuda {
namespace {

// A row's softmax so far; the sum is of the lane's keys.
struct TallRow {
  float reference = -INFINITY;  // a score, without the temperature
  float sum = 0;
};

// Takes new references; what was summed before shrinks.
template <class Size>
__device__ void shrink(const TallScores& scores, float scale, TallRow (&rows)[2],
                       typename Size::Results& results) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    TallRow& row = rows[half];
    float most = fmaxf(quad_max(row_most(scores, half)), row.reference);
    float factor = fast_exp2((row.reference - finite_largest(most)) * scale);
    row.reference = most;
    row.sum *= factor;
#pragma unroll
    for (int t = 0; t < Size::kTiles; ++t) {
      results[t][2 * half] *= factor;
      results[t][2 * half + 1] *= factor;
    }
  }
}

// Scores give way to weights.
template <class Size>
__device__ void advance_softmax(TallScores& scores, float scale, TallRow (&rows)[2],
                                typename Size::Results& results) {
  float slack = kSlack / scale;
  bool grows = row_most(scores, 0) > rows[0].reference + slack ||
               row_most(scores, 1) > rows[1].reference + slack;
  if (__any_sync(~0U, grows)) shrink<Size>(scores, scale, rows, results);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    TallRow& row = rows[half];
    float shift = kWeightShift - finite_largest(row.reference) * scale;
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t) {
#pragma unroll
      for (int n = 2 * half; n < 2 * half + 2; ++n) {
        scores[t][n] = fast_exp2(fmaf(scores[t][n], scale, shift));
        row.sum += scores[t][n];
      }
    }
  }
}

struct TallOutput {
  View to{};
  float factor = 1;

  TallOutput(const Launch& launch, size_t output) {
    if (output >= launch.outputs.size()) return;
    to = view_of(launch.out(output));
    factor = launch.factor(output);
  }
};

// What forward gives; without data where nobody asked for it.
struct TallOutputs {
  TallOutput y, logs, result;

  explicit TallOutputs(const Launch& launch) : y(launch, 0), logs(launch, 1), result(launch, 2) {}
};

// log Σ e^logit of the warp's rows, from the sums of weights; 0 where nothing is seen.
__device__ void store_logs(const Attention& a, int pair, int warp_i, float scale,
                           const TallRow (&rows)[2], const float (&sums)[2],
                           const TallOutput& logs) {
  constexpr float kLog2 = 0.693147180559945309F;
  if (tile_pair() != 0) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int i = warp_i + tile_row(2 * half);
    if (i >= a.tq) return;
    float log2 = log2f(sums[half]) + (rows[half].reference * scale - kWeightShift);
    store(logs.to, pair * a.tq + i, sums[half] == 0 ? 0 : log2 * kLog2 * logs.factor);
  }
}

template <class Size>
__global__ void __launch_bounds__(kTallThreads, Size::kHead <= 64 ? 2 : 1)
    attend_tall(Attention a, TallGrid grid, TallOutputs to) {
  TallQueries<Size, 1> block(a, grid);
  block.copy_owned(0, a.q, a.pitch);
  int first = block.begin();
  float scale = a.temperature * kLog2e;
  TallRow rows[2];
  typename Size::Results results = {};
  block.for_each_tile(first, [&](int number, int stage) {
    TallScores scores;
    begin_products();
    start_dots<Size>(block.owned(0), block.tile(stage, 0), scores);
    wait_products<0>(scores);
    block.hide(number, scores);
    advance_softmax<Size>(scores, scale, rows, results);
    TallWeights<Size> weights(scores);
    begin_products();
    weights.start(block.tile(stage, 1), results);
    commit_products();
    wait_products<0>(results);
  });
  float sums[2] = {quad_sum(rows[0].sum), quad_sum(rows[1].sum)};
  auto store_result = [&](const TallOutput& output) {
    float by = output.factor;
    float factors[2] = {sums[0] == 0 ? 0 : by / sums[0], sums[1] == 0 ? 0 : by / sums[1]};
    store_tall<Size>(a, block.at, output.to, a.width, a.tq, block.i0, block.room, factors, results);
  };
  store_result(to.y);
  if (to.logs.to.data == nullptr) return;
  store_logs(a, block.at.pair, block.warp_i, scale, rows, sums, to.logs);
  if (to.result.to.data == nullptr) return;
  __syncwarp();  // of the room, which y went through
  store_result(to.result);
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
    using Size = TallSize<typename Small::Element, Small::kHead>;
    TallGrid grid(a, a.tq, 2 * a.tk * a.d * kElementBytes);
    launch_with_room("attention", attend_tall<Size>, grid.blocks(a), kTallThreads,
                     TallQueries<Size, 1>::floats(a), a, grid, TallOutputs(launch));
  });
}

}  // namespace sigma1::cuda
