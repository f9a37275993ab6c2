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
  static constexpr int kTilesPlace = 2 * Size::kOwnedBytes;
  static constexpr int kRowsPlace = kTilesPlace + 4 * Size::kTileBytes;
  static constexpr int kFloats = kRowsPlace / 4 + 4 * kTallTile;

  const Attention& a;
  const TallRooms& rooms;
  Pair at;
  int j0;     // the block's first key
  int first;  // tile of queries that see any of the keys
  std::byte* room = shared_memory();

  // The first keys have the most queries.
  __device__ TallKeys(const Attention& of, const TallGrid& grid, const TallRooms& from)
      : a(of),
        rooms(from),
        at(grid.pair(of)),
        j0(at.tile * kTallRows),
        first(of.causal ? j0 / kTallTile : 0) {}

  __device__ int warp_j() const { return j0 + warp_of_block() * kWarpRows; }
  __device__ int group_j() const { return warp_j() / kGroupRows * kGroupRows; }
  // Keys (0) or values (1), and tiles of queries (0) and gradients (1).
  __device__ uint32_t owned(int which) const {
    return shared_address(room) + which * Size::kOwnedBytes;
  }
  __device__ uint32_t tile(int stage, int which) const {
    return shared_address(room) + kTilesPlace + (2 * stage + which) * Size::kTileBytes;
  }
  // Of a tile's queries, shifts (0) and means (1).
  __device__ float* numbers(int stage, int which) const {
    return reinterpret_cast<float*>(room + kRowsPlace) + (2 * stage + which) * kTallTile;
  }
  __device__ void copy_owned() const {
    copy_tall<Size, kTallRows>(a, at, a.k, a.pitch, a.tk, j0, owned(0));
    copy_tall<Size, kTallRows>(a, at, a.v, a.pitch, a.tk, j0, owned(1));
  }
  __device__ void copy_tile(int number, int stage) const {
    constexpr int kEach = 4, kPieces = kTallTile / kEach;
    int i = number * kTallTile, thread = static_cast<int>(threadIdx.x);
    if (i < a.tq) {
      copy_tall<Size, kTallTile>(a, at, a.q, a.pitch, a.tq, i, tile(stage, 0));
      copy_tall<Size, kTallTile>(a, at, a.dy, a.width, a.tq, i, tile(stage, 1));
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
    int count = rooms.rows / kWarpRows;
    const float* bounds = rooms.bounds + int64_t{at.pair} * count;
    int from = first * kTallTile / kWarpRows + static_cast<int>(threadIdx.x);
    for (int n = from; n < count; n += kTallThreads) bound = fmaxf(bound, bounds[n]);
    return Power(block_max(bound));
  }
  __device__ bool shows(int key) const {
    return key < a.tk && (!a.has_mask || load(a.mask, at.batch * a.tk + key) > 0);
  }
  // Whether the group of warps has any key that is seen.
  __device__ bool has_keys() const {
    int key = group_j() + lane_of_warp();
    return __any_sync(~0U, shows(key) || shows(key + 32));
  }
  // visit(number, stage) for all tiles that the group of warps has; copies of the first have begun.
  template <class Visit>
  __device__ void for_each_tile(Visit visit) const {
    bool has = has_keys();
    int stage = 0;
    for (int number = first; number * kTallTile < a.tq; ++number, stage ^= 1) {
      copy_tile(number + 1, stage ^ 1);
      bool sees = !a.causal || (number + 1) * kTallTile > group_j();
      if (has && sees) visit(number, stage);
      wait_for_copies();
    }
  }
  // Probabilities times 2^14 take the place of dot products; none where a query does not see.
  __device__ void softmax(int number, int stage, TallScores& scores) const {
    float scale = a.temperature * kLog2e;
    const float* shifts = numbers(stage, 0) + tile_column(0);
    int query = number * kTallTile;
    bool whole = !a.causal || query >= warp_j() + kWarpRows - 1;
    int behind = query + tile_column(0) - warp_j() - tile_row(0);
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t) {
      auto shift = *reinterpret_cast<const float2*>(shifts + t * 8);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float p = fast_exp2(fmaf(scores[t][n], scale, n % 2 == 0 ? shift.x : shift.y));
        int distance = behind + t * 8 + n % 2 - n / 2 * 8;
        scores[t][n] = !whole && distance < 0 ? 0 : p;
      }
    }
  }
  // Gradients of logits times `scale` take the place of those of probabilities.
  __device__ void grade(int stage, float scale, const TallScores& weights,
                        TallScores& dscores) const {
    const float* means = numbers(stage, 1) + tile_column(0);
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t) {
      auto mean = *reinterpret_cast<const float2*>(means + t * 8);
      mean = make_float2(mean.x * scale, mean.y * scale);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        dscores[t][n] = weights[t][n] * fmaf(dscores[t][n], scale, n % 2 == 0 ? -mean.x : -mean.y);
      }
    }
  }
};

// What one tile of queries adds; products go on while probabilities are found.
template <class Size>
__device__ void add_queries(const TallKeys<Size>& block, int number, int stage, float scale,
                            typename Size::Results& of_keys, typename Size::Results& of_values) {
  TallScores scores, dscores;
  begin_products();
  start_dots<Size>(block.owned(0), block.tile(stage, 0), scores);
  start_dots<Size>(block.owned(1), block.tile(stage, 1), dscores);
  wait_products<1>(scores);
  block.softmax(number, stage, scores);
  TallWeights<Size> weights(scores);
  begin_products();
  weights.start(block.tile(stage, 1), of_values);
  commit_products();
  wait_products<1>(dscores);
  block.grade(stage, scale, scores, dscores);
  TallWeights<Size> dweights(dscores);
  begin_products();
  dweights.start(block.tile(stage, 0), of_keys);
  commit_products();
  wait_products<0>(of_values);
  wait_products<0>(of_keys);
}

template <class Size>
__global__ void __launch_bounds__(kTallThreads, 1)
    grad_tall_keys(Attention a, TallGrid grid, TallRooms rooms, TallGradient dk, TallGradient dv) {
  TallKeys<Size> block(a, grid, rooms);
  block.copy_owned();
  block.copy_tile(block.first, 0);
  Power power = block.power();
  wait_for_copies();
  typename Size::Results of_keys = {}, of_values = {};
  block.for_each_tile([&](int number, int stage) {
    add_queries<Size>(block, number, stage, power.scale * kOfWeights, of_keys, of_values);
  });
  float keys[2], values[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    bool shows = block.shows(block.warp_j() + tile_row(2 * half));
    keys[half] = shows ? dk.factor * power.inverse : 0;
    values[half] = shows ? dv.factor * kOfWeights : 0;
  }
  store_tall<Size>(a, block.at, dk.to, dk.pitch, a.tk, block.j0, block.room, keys, of_keys);
  store_tall<Size>(a, block.at, dv.to, dv.pitch, a.tk, block.j0, block.room + Size::kOwnedBytes,
                   values, of_values);
}

}  // namespace

void run_tall_keys(const Attention& a, const TallRooms& rooms, const TallGradient& dk,
                   const TallGradient& dv) {
  with_tall_size(a, [&]<class Small>(Small) {
    using Size = TallSize<typename Small::Element, Small::kHead>;
    TallGrid grid(a, a.tk, 2 * a.tq * a.d * kElementBytes);
    launch_with_room("attention", grad_tall_keys<Size>, grid.blocks(a), kTallThreads,
                     TallKeys<Size>::kFloats, a, grid, rooms, dk, dv);
  });
}

}  // namespace sigma1::cuda
