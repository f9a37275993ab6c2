// The gradients of attention by tall tiles, in two launches. This one goes through the keys once,
// for dq and for what the other (attention_tall_keys.cu) needs of each row's softmax.
//
// dq_i = Σ_j p_ij·(dp_ij − mean_i)·k_j needs the mean Σ p·dp, known at the end alone. So it sums
// weights·(dp − center)·k with the mean so far as the center, and weights·k beside it, from which
// follows what another center makes of the first sum. The center moves whenever references do: a
// key that outweighs all before it has the mean near its own dp, and dp − center loses no digits.
#include "sigma1/backend/cuda/attention_tall_grad.cuh"
#include "sigma1/backend/cuda/attention_tall_queries.cuh"

namespace sigma1::cuda {
namespace {

// A row's softmax so far; sums and the bound are of the lane's keys.
struct TallGradRow {
  static constexpr float kMostPower = 0x1p100f;
  float reference = -INFINITY;  // a score, without the temperature
  float sum = 0;                // of weights
  float weighted = 0;           // Σ weight·dp
  float bound = 0;              // of |dp|
  float center = 0;
  float power = kMostPower;  // of two, what dp − center is multiplied by to lie below 1
};

template <class Size>
struct TallGradBlock : TallQueries<Size, 2> {
  using Block = TallQueries<Size, 2>;
  using Results = typename Size::Results;
  using Block::a;

  float scale;
  TallGradRow rows[2];
  Results gradients = {};  // Σ weight·(dp − center)·power·k
  Results keys = {};       // Σ weight·k

  __device__ TallGradBlock(const Attention& of, const TallGrid& grid)
      : Block(of, grid), scale(of.temperature * kLog2e) {
    if (!kNeedsPower<Size>) rows[0].power = rows[1].power = 1;
  }

  // Whether a row's weights or gradients would grow too large.
  __device__ bool grows(const TallScores& scores, const TallScores& dscores) {
    float slack = kSlack / scale;
    bool any = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      TallGradRow& row = rows[half];
      any = any || row_most(scores, half) > row.reference + slack;
      if constexpr (kNeedsPower<Size>) {
#pragma unroll
        for (int t = 0; t < kScoreTiles; ++t) {
          float two = fmaxf(fabsf(dscores[t][2 * half]), fabsf(dscores[t][2 * half + 1]));
          row.bound = fmaxf(row.bound, two);
        }
        any = any || row.bound * row.power > 0.5f;
      }
    }
    return __any_sync(~0U, any);
  }
  // Takes new references and powers; what was summed before shrinks.
  __device__ void shrink(const TallScores& scores) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      TallGradRow& row = rows[half];
      float most = fmaxf(quad_max(row_most(scores, half)), row.reference);
      float factor = fast_exp2((row.reference - finite_largest(most)) * scale);
      float of_gradients = factor;
      row.reference = most;
      row.sum *= factor;
      row.weighted *= factor;
      if constexpr (kNeedsPower<Size>) {
        constexpr float kRoom = 1.0f / (1 << (Power::kExponent + 3));  // for dp to grow by 4
        float bound = quad_max(row.bound), power = row.power;
        if (bound > 0) power = fminf(power, Power(bound).scale * kRoom);
        of_gradients *= power / row.power;
        row.power = power;
      }
#pragma unroll
      for (int n = 0; n < 2 * Size::kTiles; ++n) {
        int t = n / 2, at = 2 * half + n % 2;
        gradients[t][at] *= of_gradients;
        keys[t][at] *= factor;
      }
    }
  }
  __device__ float shift(const TallGradRow& row) const {
    return kWeightShift - finite_largest(row.reference) * scale;
  }
  // Scores give way to weights.
  __device__ void weigh(TallScores& scores, const TallScores& dscores) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      TallGradRow& row = rows[half];
      float shift_of_row = shift(row);
#pragma unroll
      for (int n = 0; n < 2 * kScoreTiles; ++n) {
        int t = n / 2, at = 2 * half + n % 2;
        float weight = fast_exp2(fmaf(scores[t][at], scale, shift_of_row));
        row.sum += weight;
        row.weighted += weight * dscores[t][at];
        scores[t][at] = weight;
      }
    }
  }
  // Moves the centers to the means so far.
  __device__ void recenter() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      TallGradRow& row = rows[half];
      float sum = quad_sum(row.sum), weighted = quad_sum(row.weighted);
      float center = sum == 0 ? 0 : weighted / sum, change = (row.center - center) * row.power;
      row.center = center;
#pragma unroll
      for (int n = 0; n < 2 * Size::kTiles; ++n) {
        int t = n / 2, at = 2 * half + n % 2;
        gradients[t][at] = fmaf(change, keys[t][at], gradients[t][at]);
      }
    }
  }
  // The gradients of probabilities give way to those of logits, times weights' and rows' powers.
  __device__ void grade(const TallScores& weights, TallScores& dscores) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float power = rows[half].power, center = rows[half].center * power;
#pragma unroll
      for (int n = 0; n < 2 * kScoreTiles; ++n) {
        int t = n / 2, at = 2 * half + n % 2;
        dscores[t][at] = weights[t][at] * fmaf(dscores[t][at], power, -center);
      }
    }
  }
  __device__ void add_tile(int number, int stage) {
    TallScores scores, dscores;
    begin_products();
    start_dots<Size>(this->owned(0), this->tile(stage, 0), scores);
    start_dots<Size>(this->owned(1), this->tile(stage, 1), dscores);
    wait_products<0>(scores);
    wait_products<0>(dscores);
    this->hide(number, scores, &dscores);
    bool moves = grows(scores, dscores);
    if (moves) shrink(scores);
    weigh(scores, dscores);
    if (moves) recenter();
    grade(scores, dscores);
    TallWeights<Size> weights(scores), dweights(dscores);
    begin_products();
    weights.start(this->tile(stage, 0), keys);
    dweights.start(this->tile(stage, 0), gradients);
    commit_products();
    wait_products<0>(keys);
    wait_products<0>(gradients);
  }
  // Leaves dq in `gradients`, but for a factor of each row, and tells the other launch of the rows.
  __device__ void finish(const TallRooms& rooms, float factor, float (&factors)[2]) {
    recenter();
    float bound = fmaxf(rows[0].bound, rows[1].bound);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const TallGradRow& row = rows[half];
      float sum = quad_sum(row.sum);
      int64_t i = this->warp_i + tile_row(2 * half);
      bool none = sum == 0 || i >= a.tq;
      factors[half] = none ? 0 : factor / (sum * row.power);
      if (tile_pair() != 0) continue;
      int64_t place = int64_t{this->at.pair} * rooms.rows + i;
      rooms.shifts[place] = none ? -INFINITY : kLargestWeight - (log2f(sum) - shift(row));
      rooms.means[place] = row.center;
    }
#pragma unroll
    for (int lane = 1; lane < 32; lane *= 2) {
      bound = fmaxf(bound, __shfl_xor_sync(~0U, bound, lane));
    }
    if (lane_of_warp() != 0) return;
    int64_t first = int64_t{this->at.pair} * rooms.rows + this->warp_i;
    rooms.bounds[first / kWarpRows] = 2 * bound;
  }
};

template <class Size>
__global__ void __launch_bounds__(kTallThreads, 1)
    grad_tall_queries(Attention a, TallGrid grid, TallRooms rooms, TallGradient dq) {
  TallGradBlock<Size> block(a, grid);
  block.copy_owned(0, a.q, a.pitch);
  block.copy_owned(1, a.dy, a.width);
  int first = block.begin();
  block.for_each_tile(first, [&](int number, int stage) { block.add_tile(number, stage); });
  float factors[2];
  block.finish(rooms, dq.factor, factors);
  store_tall<Size>(a, block.at, dq.to, dq.pitch, a.tq, block.i0, block.room, factors,
                   block.gradients);
}

}  // namespace

TallRooms::TallRooms(const Attention& a, std::byte* workspace)
    : rows(static_cast<int>(ceil_div(a.tq, kTallRows) * kTallRows)) {
  int64_t count = a.pairs() * rows;
  shifts = reinterpret_cast<float*>(workspace);
  means = shifts + count;
  bounds = means + count;
  bytes = (2 * count + count / kWarpRows) * static_cast<int64_t>(sizeof(float));
}

int64_t tall_grad_workspace(const Attention& a) {
  return uses_tall(a) && !uses_whole(a) ? TallRooms(a, nullptr).bytes : 0;
}

void run_attention_grad_tall(const Launch& launch) {
  Attention a(launch);
  if (uses_whole(a)) return run_attention_grad_whole(launch);
  TallRooms rooms(a, launch.workspace.data());
  with_tall_size(a, [&]<class Small>(Small) {
    using Size = TallSize<typename Small::Element, Small::kHead>;
    TallGrid grid(a, a.tq, 2 * a.tk * a.d * kElementBytes);
    launch_with_room("attention", grad_tall_queries<Size>, grid.blocks(a), kTallThreads,
                     TallQueries<Size, 2>::floats(a), a, grid, rooms,
                     TallGradient(launch, 0, a.temperature));
  });
  run_tall_keys(a, rooms, {launch, 1, a.temperature}, {launch, 2, 1});
}

}  // namespace sigma1::cuda
