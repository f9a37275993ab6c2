// The gradients of attention where a block has room for a whole head, of at most 128 queries and
// keys: everything is read once, scores are computed once, and a row's softmax is known before its
// gradient is. Five products, where kernels that go through tiles have eight.
//
// Probabilities, and then the gradients of logits, are left factors as registers hold them for what
// is summed over keys, and go through shared memory for what is summed over queries.
#include "sigma1/backend/cuda/attention_tall_grad.cuh"

namespace sigma1::cuda {
namespace {

constexpr int kHalves = kTallRows / kTallTile;  // tiles of keys

template <class Size>
struct WholeHead {
  using Element = typename Size::Element;
  using Results = typename Size::Results;
  enum Tensor { kQueries, kKeys, kValues, kDy, kWeights, kEnd = kWeights + kHalves };
  static constexpr int kBoundsPlace = kEnd * Size::kOwnedBytes;
  static constexpr int kFloats = kBoundsPlace / 4 + kTallThreads / 32;

  const Attention& a;
  Pair at;
  int warp_row = warp_of_block() * kWarpRows, group = warp_row / kGroupRows;
  std::byte* room = shared_memory();
  uint64_t seen[kHalves] = {};  // a bit for each key that may be seen

  __device__ explicit WholeHead(const Attention& of) : a(of), at(of) {}

  __device__ uint32_t place(int tensor, int row = 0) const {
    return shared_address(room) + tensor * Size::kOwnedBytes + row * kPanelBytes;
  }
  __device__ void copy(int tensor, const View& from, int64_t pitch, int64_t rows) const {
    copy_tall<Size, kTallRows>(a, at, from, pitch, rows, 0, place(tensor));
  }
  __device__ void copy_all() const {
    copy(kQueries, a.q, a.pitch, a.tq);
    copy(kKeys, a.k, a.pitch, a.tk);
    copy(kValues, a.v, a.pitch, a.tk);
    copy(kDy, a.dy, a.width, a.tq);
    commit_copies();
  }
  __device__ void find_seen() {
    constexpr int kWord = 32;
#pragma unroll
    for (int first = 0; first < kTallRows; first += kWord) {
      int key = first + lane_of_warp();
      bool shows = key < a.tk && (!a.has_mask || load(a.mask, at.batch * a.tk + key) > 0);
      uint64_t bits = __ballot_sync(~0U, shows);
      seen[first / kTallTile] |= bits << first % kTallTile;
    }
  }
  // scores[r][c] = rows_r · columns_c of the group's rows.
  __device__ void dots(int rows, int columns, TallScores (&scores)[kHalves]) const {
    begin_products();
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
#pragma unroll
      for (int x = 0; x < kPanel; x += 16) {
        int offset = x * kElementBytes;
        start_product<Element>(scores[h], panel_of(place(rows, group * kGroupRows) + offset),
                               panel_of(place(columns, h * kTallTile) + offset), x > 0);
      }
    }
    commit_products();
#pragma unroll
    for (int h = 0; h < kHalves; ++h) wait_products<0>(scores[h]);
  }
  // Scores give way to probabilities times 2^14.
  __device__ void softmax(TallScores (&scores)[kHalves]) const {
    float scale = a.temperature * kLog2e;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = quad_max(fmaxf(row_most(scores[0], half), row_most(scores[1], half)));
      float shift = -finite_largest(most) * scale, sum = 0;
#pragma unroll
      for (int n = 0; n < 2 * kHalves * kScoreTiles; ++n) {
        float& score = scores[n / 2 / kScoreTiles][n / 2 % kScoreTiles][2 * half + n % 2];
        score = fast_exp2(fmaf(score, scale, shift));
        sum += score;
      }
      sum = quad_sum(sum);
      float inverse = sum == 0 ? 0 : (1 << Power::kExponent) / sum;
#pragma unroll
      for (int n = 0; n < 2 * kHalves * kScoreTiles; ++n) {
        scores[n / 2 / kScoreTiles][n / 2 % kScoreTiles][2 * half + n % 2] *= inverse;
      }
    }
  }
  // To shared memory, by rows of queries.
  __device__ void keep(const TallWeights<Size> (&weights)[kHalves]) const {
    int lane = lane_of_warp(), row = warp_row + lane % 16;
#pragma unroll
    for (int n = 0; n < kTallRows / 16; ++n) {
      uint32_t to = place(kWeights) + piece_place<kTallRows>(row, 2 * n + lane / 16);
      store_matrix_x4(to, weights[n / 4].at[n % 4]);
    }
    show_to_tensor_cores();
  }
  // The means Σ p·dp of the lane's rows, and what gradients are multiplied by to be factors. What
  // is not seen counts as zero. Synchronises the block.
  __device__ Power find_means(TallWeights<Size> (&weights)[kHalves], TallScores (&dscores)[kHalves],
                              float (&means)[2]) const {
    float bound = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = 0, weighted = 0;
#pragma unroll
      for (int n = 0; n < kHalves * kScoreTiles; ++n) {
        int h = n / kScoreTiles, t = n % kScoreTiles;
        float2 weight = unpacked(pair_of(weights[h], t, half), Element{});
        float &dx = dscores[h][t][2 * half], &dy = dscores[h][t][2 * half + 1];
        if (weight.x == 0) dx = 0;
        if (weight.y == 0) dy = 0;
        sum += weight.x + weight.y;
        weighted = fmaf(weight.x, dx, fmaf(weight.y, dy, weighted));
        if (kNeedsPower<Size>) bound = fmaxf(bound, fmaxf(fabsf(dx), fabsf(dy)));
      }
      sum = quad_sum(sum);
      means[half] = sum == 0 ? 0 : quad_sum(weighted) / sum;
    }
    auto* bounds = reinterpret_cast<float*>(room + kBoundsPlace);
    if constexpr (kNeedsPower<Size>) {
#pragma unroll
      for (int lane = 1; lane < 32; lane *= 2) {
        bound = fmaxf(bound, __shfl_xor_sync(~0U, bound, lane));
      }
      if (lane_of_warp() == 0) bounds[warp_of_block()] = 2 * bound;
    }
    __syncthreads();
    if constexpr (kNeedsPower<Size>) {
#pragma unroll
      for (int n = 0; n < kTallThreads / 32; ++n) bound = fmaxf(bound, bounds[n]);
    }
    return Power(bound);
  }
  // Probabilities give way to gradients of logits times `scale`, over 2^14.
  __device__ static void grade(const float (&means)[2], float scale,
                               const TallScores (&dscores)[kHalves],
                               TallWeights<Size> (&weights)[kHalves]) {
    scale *= kOfWeights;
#pragma unroll
    for (int n = 0; n < 2 * kHalves * kScoreTiles; ++n) {
      int half = n % 2, t = n / 2 % kScoreTiles, h = n / 2 / kScoreTiles;
      uint32_t& pair = pair_of(weights[h], t, half);
      float2 weight = unpacked(pair, Element{});
      const float* two = &dscores[h][t][2 * half];
      float mean = means[half] * scale;
      pair = packed<Element>(weight.x * fmaf(two[0], scale, -mean),
                             weight.y * fmaf(two[1], scale, -mean));
    }
  }
  // sums_c = Σ over queries r of kept[r][c] · rows_r, c of the group's keys.
  __device__ void start_sums_over_queries(int rows, Results& sums) const {
#pragma unroll
    for (int r = 0; r < kTallRows; r += 16) {
      start_product<Element, true>(sums, panel_of(place(kWeights + group, r)),
                                   panel_of(place(rows, r)), r > 0);
    }
    commit_products();
  }
  __device__ void store_queries(const TallGradient& to, float factor, int free,
                                const Results& sums) const {
    float factors[2] = {factor, factor};
    store_tall<Size>(a, at, to.to, to.pitch, a.tq, 0, room + free * Size::kOwnedBytes, factors,
                     sums);
  }
  __device__ void store_keys(const TallGradient& to, float factor, int free,
                             const Results& sums) const {
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int key = (warp_row + tile_row(2 * half)) % kTallTile;
      uint64_t of_group = group == 0 ? seen[0] : seen[1];
      factors[half] = (of_group >> key & 1) != 0 ? factor : 0;
    }
    store_tall<Size>(a, at, to.to, to.pitch, a.tk, 0, room + free * Size::kOwnedBytes, factors,
                     sums);
  }
};

template <class Size>
__global__ void __launch_bounds__(kTallThreads, 2)
    grad_whole(Attention a, TallGradient dq, TallGradient dk, TallGradient dv) {
  using Block = WholeHead<Size>;
  Block block(a);
  block.copy_all();
  block.find_seen();
  wait_for_copies();
  TallScores scores[kHalves];
  block.dots(Block::kQueries, Block::kKeys, scores);
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    int last = a.causal ? block.warp_row - h * kTallTile : kTallTile;
    hide_scores(block.seen[h], last, scores[h]);
  }
  block.softmax(scores);
  TallWeights<Size> weights[kHalves] = {TallWeights<Size>(scores[0]), TallWeights<Size>(scores[1])};
  block.keep(weights);
  block.dots(Block::kDy, Block::kValues, scores);
  float means[2];
  Power power = block.find_means(weights, scores, means);
  Block::grade(means, power.scale, scores, weights);
  typename Size::Results of_queries = {}, of_keys, of_values;
  begin_products();
  block.start_sums_over_queries(Block::kDy, of_values);
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    weights[h].start(block.place(Block::kKeys, h * kTallTile), of_queries);
  }
  commit_products();
  wait_products<0>(of_values);
  wait_products<0>(of_queries);
  __syncthreads();  // probabilities are not needed any more
  block.keep(weights);
  __syncthreads();
  begin_products();
  block.start_sums_over_queries(Block::kQueries, of_keys);
  wait_products<0>(of_keys);  // to store is to call a function, which may save registers
  block.store_queries(dq, dq.factor * power.inverse, Block::kValues, of_queries);
  block.store_keys(dv, dv.factor * kOfWeights, Block::kDy, of_values);
  block.store_keys(dk, dk.factor * power.inverse, Block::kKeys, of_keys);
}

}  // namespace

bool uses_whole(const Attention& a) {
  return uses_tall(a) && !a.causal && a.d == kPanel && max(a.tq, a.tk) <= kTallRows;
}

void run_attention_grad_whole(const Launch& launch) {
  Attention a(launch);
  auto run = [&]<class Element>(Element) {
    using Size = TallSize<Element, kPanel>;
    launch_with_room("attention", grad_whole<Size>, a.pairs(), kTallThreads,
                     WholeHead<Size>::kFloats, a, TallGradient(launch, 0, a.temperature),
                     TallGradient(launch, 1, a.temperature), TallGradient(launch, 2, 1));
  };
  if (a.q.type == Type::fp16) {
    run(__half{});
  } else {
    run(__nv_bfloat16{});
  }
}

}  // namespace sigma1::cuda
