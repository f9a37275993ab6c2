// What the gradient of attention by tall tiles needs of each query's softmax, from what forward has
// kept, and how large rows of dy and v are: a warp has 16 rows of one head, four at a time.
#include "sigma1/backend/cuda/attention_tall_kept.cuh"
#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {
namespace {

constexpr int kLanes = 8, kEach = 8;  // of a row, and numbers of each
constexpr int kAtOnce = 32 / kLanes;

template <class Size>
constexpr Type kTypeOf = kNeedsPower<Size> ? Type::fp16 : Type::bf16;

__device__ float sum_of_row(float value) {
#pragma unroll
  for (int lane = 1; lane < kLanes; lane *= 2) value += __shfl_xor_sync(~0U, value, lane);
  return value;
}
__device__ float dot(const Eight& a, const Eight& b) {
  float sum = 0;
#pragma unroll
  for (int n = 0; n < kEach; ++n) sum = fmaf(a.at[n], b.at[n], sum);
  return sum;
}

// Rows of a warp, and of each the lane's part.
struct RowGroup {
  Pair at;
  int first, column;

  __device__ RowGroup(const Attention& a, int64_t number, int groups) : at(a) {
    at.head = static_cast<int>(number % a.heads);
    at.batch = static_cast<int>(number / a.heads / groups);
    at.pair = at.batch * a.heads + at.head;
    first = static_cast<int>(number / a.heads % groups) * kWarpRows;
    column = lane_of_warp() % kLanes * kEach;
  }
  __device__ int row(int n) const { return first + n * kAtOnce + lane_of_warp() / kLanes; }
  // Of the rows' squared norms.
  __device__ void keep_largest(float square, float* to) const {
#pragma unroll
    for (int lane = kLanes; lane < 32; lane *= 2) {
      square = fmaxf(square, __shfl_xor_sync(~0U, square, lane));
    }
    if (lane_of_warp() == 0) *to = sqrtf(square);
  }
};

constexpr int kPasses = kWarpRows / kAtOnce;

// All is asked for before the first number is used.
template <class Size, class Reader>
__device__ void fill_queries(const Attention& a, const KeptInputs& kept, const KeptRooms& rooms,
                             int64_t number) {
  using ReadDy = ReadPacks<kTypeOf<Size>>;
  RowGroup group(a, number, rooms.query_groups());
  typename ReadDy::Codes dy[kPasses];
  typename Reader::Codes result[kPasses];
#pragma unroll
  for (int n = 0; n < kPasses; ++n) {
    int64_t row = group.at.batch * a.tq + group.row(n);
    int column = group.at.head * a.d + group.column;
    bool inside = group.row(n) < a.tq && group.column < a.d;
    dy[n] = ReadDy::read(a.dy, a.width, row, column, inside);
    result[n] = Reader::read(kept.result, a.width, row, column, inside);
  }
  // A lane has the numbers of one query.
  int lane = lane_of_warp(), query = group.first + lane;
  bool exists = lane < kWarpRows && query < a.tq;
  float log = exists ? load(kept.logs, group.at.pair * a.tq + query) : 0;
  float scale = kept.scale * (kept.result.scale == nullptr ? 1 : *kept.result.scale);
  float largest = 0, mean = 0;
#pragma unroll
  for (int n = 0; n < kPasses; ++n) {
    Eight numbers = dy[n].numbers();
    float of_row = sum_of_row(dot(numbers, result[n].numbers()));
    float of_lane = __shfl_sync(~0U, of_row, lane % kAtOnce * kLanes);
    if (lane / kAtOnce == n) mean = of_lane * scale;
    if constexpr (kNeedsPower<Size>) largest = fmaxf(largest, sum_of_row(dot(numbers, numbers)));
  }
  if (lane < kWarpRows) {
    int64_t place = int64_t{group.at.pair} * rooms.rows + query;
    rooms.shifts[place] = exists ? kLargestWeight - log * kLog2e : -INFINITY;
    rooms.means[place] = mean;
  }
  if constexpr (kNeedsPower<Size>) {
    int64_t place = int64_t{group.at.pair} * rooms.query_groups() + group.first / kWarpRows;
    group.keep_largest(largest, rooms.dy_norms + place);
  }
}

// Keys that a mask hides do not count.
template <class Size>
__device__ void fill_keys(const Attention& a, const KeptRooms& rooms, int64_t number) {
  using ReadV = ReadPacks<kTypeOf<Size>>;
  RowGroup group(a, number, rooms.key_groups);
  typename ReadV::Codes v[kPasses];
#pragma unroll
  for (int n = 0; n < kPasses; ++n) {
    int64_t key = group.at.batch * a.tk + group.row(n);
    bool inside = group.row(n) < a.tk && group.column < a.d;
    if (inside && a.has_mask) inside = load(a.mask, key) > 0;
    v[n] = ReadV::read(a.v, a.pitch, key, group.at.head * a.d + group.column, inside);
  }
  float largest = 0;
#pragma unroll
  for (int n = 0; n < kPasses; ++n) {
    Eight numbers = v[n].numbers();
    largest = fmaxf(largest, sum_of_row(dot(numbers, numbers)));
  }
  int64_t place = int64_t{group.at.pair} * rooms.key_groups + group.first / kWarpRows;
  group.keep_largest(largest, rooms.v_norms + place);
}

template <class Size, class Reader>
__global__ void __launch_bounds__(kThreads)
    fill_rooms(Attention a, KeptInputs kept, KeptRooms rooms) {
  if (blockIdx.x == 0 && threadIdx.x < rooms.blocks) rooms.done[threadIdx.x] = 0;
  int64_t number = int64_t{blockIdx.x} * kWarps + warp_of_block();
  int64_t heads = a.batch * a.heads, queries = heads * rooms.query_groups();
  if (number < queries) {
    fill_queries<Size, Reader>(a, kept, rooms, number);
  } else if (number < queries + heads * rooms.key_groups) {
    if constexpr (kNeedsPower<Size>) fill_keys<Size>(a, rooms, number - queries);
  }
}

template <class Size>
void fill(const Attention& a, const KeptInputs& kept, const KeptRooms& rooms) {
  auto run = [&]<class Reader>(Reader) {
    int64_t warps = a.pairs() * (rooms.rows / kWarpRows + rooms.key_groups);
    Grid grid{static_cast<unsigned>(ceil_div(warps, kWarps)), kThreads};
    launch_kernel("attention", fill_rooms<Size, Reader>, grid, a, kept, rooms);
  };
  if (!packs_eight(kept.result, a.width)) return run(ReadEach());
  switch (kept.result.type) {
    case Type::fp16:
      return run(ReadPacks<Type::fp16>());
    case Type::bf16:
      return run(ReadPacks<Type::bf16>());
    case Type::fp32:
      return run(ReadPacks<Type::fp32>());
    default:
      return run(ReadEach());
  }
}

}  // namespace

// A head is cut where blocks have at least half a head, or it would have to be put together from
// many parts; and where no mask may leave a part without any key to be seen.
KeptRooms::KeptRooms(const Attention& a, std::byte* workspace)
    : logit_scale(a.temperature * kLog2e),
      rows(static_cast<int>(ceil_div(a.tq, kTallRows) * kTallRows)),
      key_groups(a.q.type == Type::fp16 ? static_cast<int>(ceil_div(a.tk, kWarpRows)) : 0) {
  constexpr int64_t kMultiprocessors = 132, kFloats = sizeof(float);
  static_assert(kMultiprocessors <= kThreads);  // of the block that clears `done`
  cuts = !a.has_mask && 2 * a.pairs() >= kMultiprocessors;
  blocks = static_cast<int>(cuts ? kMultiprocessors : min(a.pairs(), kMultiprocessors));
  auto take = [&](int64_t count) {
    auto* at = reinterpret_cast<float*>(workspace) + bytes / kFloats;
    bytes += count * kFloats;
    return at;
  };
  int64_t of_blocks = int64_t{blocks} * rows * kPanel;
  shifts = take(a.pairs() * rows);
  means = take(a.pairs() * rows);
  sums = take(of_blocks);
  late_sums = take(cuts ? of_blocks : 0);
  dy_norms = take(a.pairs() * rows / kWarpRows);
  v_norms = take(a.pairs() * key_groups);
  done = reinterpret_cast<unsigned*>(take(blocks));
}

void fill_kept_rooms(const Attention& a, const KeptInputs& kept, const KeptRooms& rooms) {
  if (a.q.type == Type::fp16) {
    fill<TallSize<__half, kPanel>>(a, kept, rooms);
  } else {
    fill<TallSize<__nv_bfloat16, kPanel>>(a, kept, rooms);
  }
}

}  // namespace sigma1::cuda
