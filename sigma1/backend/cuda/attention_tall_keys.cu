// The gradients of attention that are summed over queries, by tall tiles: dk and dv of 128 keys of
// one head. Scores lie transposed, a row for each key, so that they can be factors as they are.
//
// A sum over queries needs one power of two for all of them: that of the largest gradient. Keys
// that a mask hides are computed like others, and zeros are stored instead.
#include "sigma1/backend/cuda/attention_tall_grad.cuh"
#include "sigma1/backend/cuda/product.cuh"
#include "sigma1/backend/cuda/reduce.cuh"

namespace sigma1::cuda {
namespace {

template <class Size>
struct TallKeys {
  static constexpr int kM = Size::kM;
  static constexpr int kTilesPlace = 2 * Size::kOwnedBytes;
  static constexpr int kRowsPlace = kTilesPlace + 4 * Size::kTileBytes;
  static constexpr int kFloats = kRowsPlace / 4 + 4 * kTallTile;
  using Scores = typename Size::Scores;

  const Attention& a;
  const TallRooms& rooms;
  Pair at;
  int j0, warp_row;  // the block's first key, and which of the rows is the warp's first
  int first;         // tile of queries that see any of the keys
  std::byte* room = shared_memory();

  // The first keys have the most queries.
  __device__ TallKeys(const Attention& of, const TallGrid& grid, const TallRooms& from)
      : a(of),
        rooms(from),
        at(grid.pair(of)),
        j0(at.tile * kTallRows),
        warp_row(warp_of_block() * Size::kWarpRows),
        first(of.causal ? j0 / kTallTile : 0) {}

  __device__ int warp_j() const { return j0 + warp_row; }
  // The warp's rows of keys (0) or values (1), and tiles of queries (0) and gradients (1).
  __device__ std::byte* owned(int which) const {
    return room + which * Size::kOwnedBytes + warp_row * Size::kRowBytes;
  }
  __device__ uint32_t tile(int stage, int which) const {
    return shared_address(room) + kTilesPlace + (2 * stage + which) * Size::kTileBytes;
  }
  // Of a tile's queries, shifts (0) and means (1).
  __device__ float* numbers(int stage, int which) const {
    return reinterpret_cast<float*>(room + kRowsPlace) + (2 * stage + which) * kTallTile;
  }
  __device__ void copy_owned() const {
    int64_t start = at.start(a, a.tk);
    uint32_t to = shared_address(room);
    copy_tall<Size, kTallRows>(a, a.k, start, j0, a.tk, to);
    copy_tall<Size, kTallRows>(a, a.v, start, j0, a.tk, to + Size::kOwnedBytes);
  }
  __device__ void copy_tile(int number, int stage) const {
    constexpr int kEach = 4, kPieces = kTallTile / kEach;
    int i = number * kTallTile, thread = static_cast<int>(threadIdx.x);
    if (i < a.tq) {
      int64_t start = at.start(a, a.tq);
      copy_tall<Size, kTallTile>(a, a.q, start, i, a.tq, tile(stage, 0));
      copy_tall<Size, kTallTile>(a, a.dy, start, i, a.tq, tile(stage, 1));
      if (thread < 2 * kPieces) {
        int which = thread / kPieces, place = thread % kPieces * kEach;
        const float* from = which == 0 ? rooms.shifts : rooms.means;
        from += int64_t{at.pair} * rooms.rows + i + place;
        copy_16_async(numbers(stage, which) + place, from);
      }
    }
    commit_copies();
  }
  __device__ Power power() const {
    float bound = 0;
    if constexpr (!kNeedsPower<Size>) return Power(bound);
    const float* bounds = rooms.bounds + int64_t{at.pair} * (rooms.rows / Size::kWarpRows);
    int from = first * kTallTile / Size::kWarpRows + static_cast<int>(threadIdx.x);
    for (int n = from; n < rooms.rows / Size::kWarpRows; n += Size::kBlockThreads) {
      bound = fmaxf(bound, bounds[n]);
    }
    return Power(block_max(bound));
  }
  __device__ bool shows(int key) const {
    return key < a.tk && (!a.has_mask || load(a.mask, at.batch * a.tk + key) > 0);
  }
  // visit(query, its row of the tile, stage) for all steps that the warp has; `has`: whether any.
  template <class Visit>
  __device__ void for_each_step(bool has, Visit visit) const {
    copy_tile(first, 0);
    wait_copies<0>();
    __syncthreads();
    int stage = 0;
    for (int number = first; number * kTallTile < a.tq; ++number, stage ^= 1) {
      copy_tile(number + 1, stage ^ 1);
#pragma unroll 1
      for (int row = 0; has && row < kTallTile; row += Size::kStep) {
        int query = number * kTallTile + row;
        bool skips = query >= a.tq || (a.causal && query + Size::kStep <= warp_j());
        if (!skips) visit(query, row, stage);
      }
      wait_copies<0>();
      __syncthreads();
    }
  }
  // Probabilities times 2^14 take the place of dot products, and gradients of logits times `scale`
  // that of the gradients of probabilities.
  __device__ void softmax_grad(int query, const float* shifts, const float* means, float scale,
                               Scores& scores, Scores& dscores) const {
    float logit_scale = a.temperature * kLog2e;
    bool whole = !a.causal || query >= warp_j() + Size::kWarpRows - 1;
    int behind = query + tile_column(0) - warp_j() - tile_row(0);
#pragma unroll
    for (int t = 0; t < Size::kN; ++t) {
      auto shift = *reinterpret_cast<const float2*>(shifts + t * 8 + tile_column(0));
      auto mean = *reinterpret_cast<const float2*>(means + t * 8 + tile_column(0));
      mean = make_float2(mean.x * scale, mean.y * scale);
#pragma unroll
      for (int n = 0; n < kM * 4; ++n) {
        int m = n / 4, of_row = n % 4, distance = behind + t * 8 + n % 2 - m * 16 - of_row / 2 * 8;
        float p =
            fast_exp2(fmaf(scores[m][t][of_row], logit_scale, n % 2 == 0 ? shift.x : shift.y));
        if (!whole && distance < 0) p = 0;
        float& dscore = dscores[m][t][of_row];
        dscore = p * fmaf(dscore, scale, n % 2 == 0 ? -mean.x : -mean.y);
        scores[m][t][of_row] = p;
      }
    }
  }
  __device__ void add_step(int query, int row, int stage, float scale,
                           typename Size::Results& of_keys,
                           typename Size::Results& of_values) const {
    Scores scores = {}, dscores = {};
    RoomLeft<Size> keys{lane_of_left<Size>(shared_address(owned(0)))};
    RoomLeft<Size> values{keys.lane + Size::kOwnedBytes};
    uint32_t queries = tile(stage, 0) + row * Size::kRowBytes;
    uint32_t columns = lane_of_right<Size>(queries), summed = lane_of_left<Size>(queries);
    add_tall_dots<Size>(keys, columns, scores);
    add_tall_dots<Size>(values, columns + Size::kTileBytes, dscores);
    softmax_grad(query, numbers(stage, 0) + row, numbers(stage, 1) + row, scale, scores, dscores);
#pragma unroll
    for (int t = 0; t < Size::kN; t += 2) {
      uint32_t weights[kM][4], from = summed + t * 8 * Size::kRowBytes;
      round_weights<Size>(scores, t, 0, weights);
      add_tall_products<Size>(weights, from + Size::kTileBytes, of_values);
      round_weights<Size>(dscores, t, 0, weights);
      add_tall_products<Size>(weights, from, of_keys);
    }
  }
};

template <class Size>
__global__ void __launch_bounds__(Size::kBlockThreads, kGradBlocksOfSm<Size>)
    grad_tall_keys(Attention a, TallGrid grid, TallRooms rooms, Gradient dk, Gradient dv) {
  TallKeys<Size> block(a, grid, rooms);
  block.copy_owned();
  Power power = block.power();
  bool has = false;
  for (int row = lane_of_warp(); row < Size::kWarpRows; row += 32) {
    has = has || block.shows(block.warp_j() + row);
  }
  has = __any_sync(~0U, has);
  typename Size::Results of_keys = {}, of_values = {};
  block.for_each_step(has, [&](int query, int row, int stage) {
    block.add_step(query, row, stage, power.scale * kOfWeights, of_keys, of_values);
  });
  float keys[Size::kM][2], values[Size::kM][2];
#pragma unroll
  for (int r = 0; r < 2 * Size::kM; ++r) {
    bool shows = block.shows(block.warp_j() + r / 2 * 16 + tile_row(r % 2 * 2));
    keys[r / 2][r % 2] = shows ? dk.factor * power.inverse : 0;
    values[r / 2][r % 2] = shows ? dv.factor * kOfWeights : 0;
  }
  store_tall<Size>(a, block.at, dk.to, a.tk, block.warp_j(), block.owned(0), keys, of_keys);
  store_tall<Size>(a, block.at, dv.to, a.tk, block.warp_j(), block.owned(1), values, of_values);
}

}  // namespace

void run_tall_keys(const Attention& a, const TallRooms& rooms, const Gradient& dk,
                   const Gradient& dv) {
  with_tall_size(a, [&]<class Small>(Small) {
    using Size = GradSize<typename Small::Element, Small::kHead>;
    TallGrid grid(a, a.tk, 2 * a.tq * a.d * kElementBytes);
    launch_with_room("attention", grad_tall_keys<Size>, grid.blocks(a), Size::kBlockThreads,
                     TallKeys<Size>::kFloats, a, grid, rooms, dk, dv);
  });
}

}  // namespace sigma1::cuda
