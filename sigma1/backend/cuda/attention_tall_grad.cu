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
  static constexpr int kM = Size::kM;
  using Block = TallQueries<Size, 2>;
  using Scores = typename Size::Scores;
  using Block::a;

  float scale;
  TallGradRow rows[kM][2];
  // Σ weight·(dp − center)·power·k, then Σ weight·k.
  float sums[2 * kM][Size::kTiles][4] = {};

  __device__ TallGradBlock(const Attention& of, const TallGrid& grid)
      : Block(of, grid), scale(of.temperature * kLog2e) {
#pragma unroll
    for (int r = 0; r < 2 * kM; ++r) {
      if (!kNeedsPower<Size>) rows[r / 2][r % 2].power = 1;
    }
  }

  // Whether a row's weights or gradients would grow too large.
  __device__ bool grows(const Scores& scores, const Scores& dscores) {
    float slack = kSlack / scale;
    bool any = false;
#pragma unroll
    for (int r = 0; r < 2 * kM; ++r) {
      int m = r / 2, half = r % 2;
      TallGradRow& row = rows[m][half];
      any = any || row_most<Size>(scores, m, half) > row.reference + slack;
      if constexpr (kNeedsPower<Size>) {
#pragma unroll
        for (int t = 0; t < Size::kN; ++t) {
          float two = fmaxf(fabsf(dscores[m][t][2 * half]), fabsf(dscores[m][t][2 * half + 1]));
          row.bound = fmaxf(row.bound, two);
        }
        any = any || row.bound * row.power > 0.5f;
      }
    }
    return __any_sync(~0U, any);
  }
  // Takes new references and powers; what was summed before shrinks.
  __device__ void shrink(const Scores& scores) {
#pragma unroll
    for (int r = 0; r < 2 * kM; ++r) {
      int m = r / 2, half = r % 2;
      TallGradRow& row = rows[m][half];
      float most = fmaxf(quad_max(row_most<Size>(scores, m, half)), row.reference);
      float factor = fast_exp2((row.reference - finite_largest(most)) * scale),
            of_gradients = factor;
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
      for (int t = 0; t < Size::kTiles; ++t) {
#pragma unroll
        for (int n = 2 * half; n < 2 * half + 2; ++n) {
          sums[m][t][n] *= of_gradients;
          sums[kM + m][t][n] *= factor;
        }
      }
    }
  }
  __device__ float shift(const TallGradRow& row) const {
    return kWeightShift - finite_largest(row.reference) * scale;
  }
  // Scores give way to weights.
  __device__ void weigh(Scores& scores, const Scores& dscores) {
#pragma unroll
    for (int r = 0; r < 2 * kM; ++r) {
      int m = r / 2, half = r % 2;
      TallGradRow& row = rows[m][half];
      float shift_of_row = shift(row);
#pragma unroll
      for (int t = 0; t < Size::kN; ++t) {
#pragma unroll
        for (int n = 2 * half; n < 2 * half + 2; ++n) {
          float weight = fast_exp2(fmaf(scores[m][t][n], scale, shift_of_row));
          row.sum += weight;
          row.weighted += weight * dscores[m][t][n];
          scores[m][t][n] = weight;
        }
      }
    }
  }
  // Moves the centers to the means so far.
  __device__ void recenter() {
#pragma unroll
    for (int r = 0; r < 2 * kM; ++r) {
      int m = r / 2, half = r % 2;
      TallGradRow& row = rows[m][half];
      float sum = quad_sum(row.sum), weighted = quad_sum(row.weighted);
      float center = sum == 0 ? 0 : weighted / sum, change = (row.center - center) * row.power;
      row.center = center;
#pragma unroll
      for (int t = 0; t < Size::kTiles; ++t) {
#pragma unroll
        for (int n = 2 * half; n < 2 * half + 2; ++n) {
          sums[m][t][n] = fmaf(change, sums[kM + m][t][n], sums[m][t][n]);
        }
      }
    }
  }
  // The gradients of probabilities give way to those of logits, times weights' and rows' powers.
  __device__ void grade(const Scores& weights, Scores& dscores) const {
#pragma unroll
    for (int r = 0; r < 2 * kM; ++r) {
      int m = r / 2, half = r % 2;
      float power = rows[m][half].power, center = rows[m][half].center * power;
#pragma unroll
      for (int t = 0; t < Size::kN; ++t) {
#pragma unroll
        for (int n = 2 * half; n < 2 * half + 2; ++n) {
          dscores[m][t][n] = weights[m][t][n] * fmaf(dscores[m][t][n], power, -center);
        }
      }
    }
  }
  __device__ void add_step(int key, int row, int stage, uint64_t bits) {
    Scores scores = {}, dscores = {};
    RoomLeft<Size> q{lane_of_left<Size>(shared_address(this->owned(0)))};
    RoomLeft<Size> dy{q.lane + Size::kOwnedBytes};
    uint32_t keys = this->tile(stage, 0) + row * Size::kRowBytes;
    uint32_t columns = lane_of_right<Size>(keys), summed = lane_of_left<Size>(keys);
    add_tall_dots<Size>(q, columns, scores);
    add_tall_dots<Size>(dy, columns + Size::kTileBytes, dscores);
    this->hide(key, bits, scores, &dscores);
    bool moves = grows(scores, dscores);
    if (moves) shrink(scores);
    weigh(scores, dscores);
    if (moves) recenter();
    grade(scores, dscores);
#pragma unroll
    for (int t = 0; t < Size::kN; t += 2) {
      uint32_t weights[2 * kM][4];
      round_weights<Size>(dscores, t, 0, weights);
      round_weights<Size>(scores, t, kM, weights);
      add_tall_products<Size>(weights, summed + t * 8 * Size::kRowBytes, sums);
    }
  }
  // Leaves dq, but for a factor of each row, and tells the other launch of the rows.
  __device__ void finish(const TallRooms& rooms, float factor, float (&factors)[kM][2]) {
    recenter();
    float bound = 0;
#pragma unroll
    for (int r = 0; r < 2 * kM; ++r) {
      TallGradRow& row = rows[r / 2][r % 2];
      float sum = quad_sum(row.sum);
      int64_t i = this->warp_i() + r / 2 * 16 + tile_row(r % 2 * 2);
      bool none = sum == 0 || i >= a.tq;
      factors[r / 2][r % 2] = none ? 0 : factor / (sum * row.power);
      bound = fmaxf(bound, row.bound);
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
    int64_t first = int64_t{this->at.pair} * rooms.rows + this->warp_i();
    rooms.bounds[first / Size::kWarpRows] = 2 * bound;
  }
};

template <class Size>
__global__ void __launch_bounds__(Size::kBlockThreads, kGradBlocksOfSm<Size>)
    grad_tall_queries(Attention a, TallGrid grid, TallRooms rooms, Gradient dq) {
  TallGradBlock<Size> block(a, grid);
  block.copy_owned(0, a.q);
  block.copy_owned(1, a.dy);
  int first = block.begin();
  block.for_each_step(first, [&](int key, int row, int stage, uint64_t bits) {
    block.add_step(key, row, stage, bits);
  });
  float factors[Size::kM][2];
  block.finish(rooms, dq.factor, factors);
  typename Size::Results results;
#pragma unroll
  for (int n = 0; n < Size::kM * Size::kTiles * 4; ++n) {
    int m = n / 4 / Size::kTiles, t = n / 4 % Size::kTiles;
    results[m][t][n % 4] = block.sums[m][t][n % 4];
  }
  store_tall<Size>(a, block.at, dq.to, a.tq, block.warp_i(), block.owned(0), factors, results);
}

}  // namespace

TallRooms::TallRooms(const Attention& a, std::byte* workspace)
    : rows(static_cast<int>(ceil_div(a.tq, kTallRows) * kTallRows)) {
  constexpr int64_t kFewestRows = 16;  // of a warp
  int64_t count = a.pairs() * rows;
  shifts = reinterpret_cast<float*>(workspace);
  means = shifts + count;
  bounds = means + count;
  bytes = (2 * count + count / kFewestRows) * static_cast<int64_t>(sizeof(float));
}

int64_t tall_grad_workspace(const Attention& a) {
  return uses_tall(a) ? TallRooms(a, nullptr).bytes : 0;
}

void run_attention_grad_tall(const Launch& launch) {
  Attention a(launch);
  TallRooms rooms(a, launch.workspace.data());
  with_tall_size(a, [&]<class Small>(Small) {
    using Size = GradSize<typename Small::Element, Small::kHead>;
    TallGrid grid(a, a.tq, 2 * a.tk * a.d * kElementBytes);
    launch_with_room("attention", grad_tall_queries<Size>, grid.blocks(a), Size::kBlockThreads,
                     TallQueries<Size, 2>::floats(a), a, grid, rooms,
                     Gradient{view_of(launch.out(0)), a.temperature * launch.factor(0)});
  });
  run_tall_keys(a, rooms, {view_of(launch.out(1)), a.temperature * launch.factor(1)},
                {view_of(launch.out(2)), launch.factor(2)});
}

}  // namespace sigma1::cuda
