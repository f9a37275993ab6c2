// The gradients of attention by tall tiles where forward has kept each query's logarithm and
// result, so that probabilities, and the gradients of logits, are known as soon as a tile's dot
// products are: five products of tiles, where attention_tall_grad.cu and attention_tall_keys.cu
// take eight.
//
// A block has a whole head, and goes through its tiles of 128 keys; for each of them through the
// queries that see any, a tile of 64 at a time. Scores lie transposed, a row for each key: a group
// of four warps has 64 keys, whose dk and dv stay in its registers, with scores as left factors as
// they are. The gradients of logits go through shared memory too, and after every second tile dq of
// both is summed over all 128 keys, of one by each group. Between tiles of keys a head's dq lies in
// memory, which its block alone touches, each thread the same numbers, and which the cache holds.
// No sum depends on what comes first.
//
// Products run while numbers are computed: those of the next tile's scores start when the registers
// of this one's are free, and those of the last tile's gradients while this one's softmax is found.
// The block is synchronised once a tile: then its gradients of logits are there for dq, copies of
// the tile after the next have come, and nobody needs the tile before the last, whose place the
// next copies take. Every other time tiles of queries are gone through backwards: what was used
// last is still in the cache.
//
// The compiler (13.0) lets products run on only where it sees which are under way: none may be
// when the loop begins anew, but for those that are awaited at once, and no branch may start, await
// or skip any.
#include "sigma1/backend/cuda/attention_tall_kept.cuh"
#include "sigma1/backend/cuda/attention_tall_kept_steps.cuh"
#include "sigma1/backend/cuda/attention_warp_store.cuh"

namespace sigma1::cuda {
namespace {

constexpr int kHalves = kTallRows / kTallTile;  // tiles of a span of queries
constexpr int kStages = 4;                      // tiles of queries in shared memory
constexpr int kGradRooms = 3;                   // tiles of gradients of logits there
constexpr int kGroupThreads = kTallThreads / kHalves;

struct KeptGradients {
  TallGradient dq, dk, dv;
};

// Registers that products may have read until here.
template <class Size>
__device__ __forceinline__ void keep_factors(const TallWeights<Size>& factors) {
#pragma unroll
  for (int n = 0; n < kTallTile / 4; ++n) {
    asm volatile("" ::"r"(factors.at[n / 4][n % 4]) : "memory");
  }
}

// Results that were awaited together with others.
template <int kTiles>
__device__ __forceinline__ void settle(float (&results)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < 4 * kTiles; ++n) asm volatile("" : "+f"(results[n / 4][n % 4])::"memory");
}

template <class Size>
struct KeptHead {
  using Element = typename Size::Element;
  using Results = typename Size::Results;
  // What is copied at once, of rows that are.
  static constexpr int kPiece = 8, kPieces = kPanel / kPiece, kPass = kTallThreads / kPieces;
  static constexpr int kNumbersBytes = kTallTile * static_cast<int>(sizeof(float));
  static constexpr int kSumsOfTile = kTallTile * kPanel / 4;
  static constexpr int kTilesPlace = KeptSteps::kKeyRooms * 2 * Size::kOwnedBytes;
  static constexpr int kGradsPlace = kTilesPlace + kStages * 2 * Size::kTileBytes;
  static constexpr int kRowsPlace = kGradsPlace + kGradRooms * Size::kOwnedBytes;
  static constexpr int kStepsPlace = kRowsPlace + kStages * 2 * kNumbersBytes;

  const Attention& a;
  const KeptRooms& rooms;
  int pair;
  std::byte* room = shared_memory();
  KeptSteps steps;
  Power power{0};
  int group;  // of warps; all lanes of a warp agree on it
  // What the thread has of a head's first tile of queries: what it copies and where to, the rows
  // from that on, and its sums of dq.
  const Element *q, *dy;
  uint32_t copy_place;
  int copy_rows;
  float4* sums;
  uint32_t keep_place;     // of a tile's gradients of logits, what it keeps first
  uint32_t column_place;   // of a tile's numbers
  unsigned grad_room = 0;  // where the next tile's gradients of logits will lie
  TallScores scores, dscores;
  TallWeights<Size> weights, dweights;
  Results of_keys, of_values, of_queries;

  static int floats(const Attention& of) { return (kStepsPlace + KeptSteps::bytes(of)) / 4; }

  __device__ KeptHead(const Attention& of, const KeptRooms& from, int number)
      : a(of), rooms(from), pair(number), steps(of, from.rows, room + kStepsPlace) {
    Pair at = head();
    int thread = static_cast<int>(threadIdx.x), lane = lane_of_warp();
    group = __shfl_sync(~0U, thread / kGroupThreads, 0);
    int row = thread / kPieces, piece = thread % kPieces;
    int64_t first = at.batch * a.tq + row, x = at.head * a.d + piece * kPiece;
    q = static_cast<const Element*>(a.q.data) + first * a.pitch + x;
    dy = static_cast<const Element*>(a.dy.data) + first * a.width + x;
    copy_place = piece_place<kTallTile>(row, piece);
    copy_rows = piece * kPiece < a.d ? static_cast<int>(a.tq) - row : 0;
    sums = reinterpret_cast<float4*>(rooms.sums) + thread % kGroupThreads +
           (int64_t{blockIdx.x} * (rooms.rows / kTallTile) + group) * kSumsOfTile;
    keep_place = piece_place<kTallRows>(warp_of_block() * kWarpRows + lane % 16, lane / 16);
    column_place = tile_column(0) * static_cast<int>(sizeof(float));
    // Or the compiler would rather compute them each time.
    asm volatile("" : "+l"(q), "+l"(dy), "+l"(sums), "+r"(copy_place), "+r"(copy_rows));
    asm volatile("" : "+r"(keep_place), "+r"(column_place));
  }

  // Found each time, rather than kept in registers.
  __device__ Pair head() const {
    Pair at(a);
    at.pair = pair;
    asm volatile("" : "+r"(at.pair));
    at.batch = at.pair / a.heads;
    at.head = at.pair - at.batch * a.heads;
    return at;
  }

  // Keys (0) or values (1) of a step, tiles of queries (0) and dy (1), and gradients of logits of
  // the next tile, or of one after it, by key and query.
  __device__ uint32_t owned(const Step& step, int which) const {
    int place = __shfl_sync(~0U, step.room, 0);
    return shared_address(room) + (2 * place + which) * Size::kOwnedBytes;
  }
  __device__ unsigned stage(unsigned ahead, int half) const {
    return ((steps.count + ahead) * kHalves + half) % kStages;
  }
  __device__ uint32_t tile(unsigned place, int which) const {
    return shared_address(room) + kTilesPlace + (2 * place + which) * Size::kTileBytes;
  }
  __device__ unsigned grads(unsigned ahead) const {
    unsigned number = grad_room + ahead;
    return kGradsPlace + (number < kGradRooms ? number : number - kGradRooms) * Size::kOwnedBytes;
  }
  // Of a tile's queries, shifts (0) and means (1); and what the thread has of them.
  __device__ std::byte* numbers(unsigned place, int which) const {
    return room + kRowsPlace + (2 * place + which) * kNumbersBytes;
  }
  __device__ float2 two_of(const std::byte* of_tile, int t) const {
    return *reinterpret_cast<const float2*>(of_tile + column_place + t * 8 * sizeof(float));
  }
  // The warp's rows of the next gradients of logits, as long as it has not written those.
  __device__ std::byte* store_room() const {
    return room + grads(0) + warp_of_block() * kStoreBytes;
  }

  __device__ __forceinline__ void copy_queries(const Element* from, int64_t pitch, int first,
                                               uint32_t to) const {
#pragma unroll
    for (int pass = 0; pass < kTallTile; pass += kPass) {
      uint64_t row = static_cast<unsigned>(first + pass);
      copy_16_async(to + copy_place + pass * kPanelBytes, from + row * static_cast<unsigned>(pitch),
                    first + pass < copy_rows);
    }
  }
  // A tile of queries, and of keys where the step is the first to need them.
  __device__ __forceinline__ void copy_half(unsigned ahead, int half) const {
    const Step& step = steps.ahead(ahead);
    if (step.exists) {
      int i = step.span * kTallRows + half * kTallTile;
      unsigned place = stage(ahead, half);
      if (half == 0 && step.turn == 0) {
        int j = step.keys * kTallRows;
        Pair at = head();
        copy_tall<Size, kTallRows>(a, at, a.k, a.pitch, a.tk, j, owned(step, 0));
        copy_tall<Size, kTallRows>(a, at, a.v, a.pitch, a.tk, j, owned(step, 1));
      }
      copy_queries(q, a.pitch, i, tile(place, 0));
      copy_queries(dy, a.width, i, tile(place, 1));
      constexpr int kEach = 4, kOfTile = kTallTile / kEach;
      int thread = static_cast<int>(threadIdx.x);
      if (thread < 2 * kOfTile) {
        int which = thread / kOfTile, x = thread % kOfTile * kEach;
        const float* from = which == 0 ? rooms.shifts : rooms.means;
        from += int64_t{pair} * rooms.rows + i + x;
        copy_16_async(numbers(place, which) + x * sizeof(float), from);
      }
    }
    commit_copies();
  }
  // For all gradients of the head: dq is summed over tiles of keys. |dp| is at most |dy|·|v|, and
  // so is the mean.
  __device__ Power find_power() const {
    if constexpr (!kNeedsPower<Size>) return Power(0);
    auto largest = [&](const float* norms, int count) {
      float most = 0;
      norms += int64_t{pair} * count;
      for (int n = lane_of_warp(); n < count; n += 32) most = fmaxf(most, norms[n]);
#pragma unroll
      for (int lane = 1; lane < 32; lane *= 2) {
        most = fmaxf(most, __shfl_xor_sync(~0U, most, lane));
      }
      return most;
    };
    return Power(2 * largest(rooms.dy_norms, rooms.query_groups()) *
                 largest(rooms.v_norms, rooms.key_groups));
  }

  // Probabilities times 2^14 take the place of dot products; none where a query does not see.
  __device__ __forceinline__ void softmax(int half) {
    float scale = a.temperature * kLog2e;
    const std::byte* shifts = numbers(stage(0, half), 0);
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t) {
      float2 shift = two_of(shifts, t);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        scores[t][n] = fast_exp2(fmaf(scores[t][n], scale, n % 2 == 0 ? shift.x : shift.y));
      }
    }
    const Step& now = steps.now();
    if (now.sees_all) return;
    uint64_t bits = steps.seen(2 * now.keys + group);
    int query = now.span * kTallRows + half * kTallTile;
    int key = now.keys * kTallRows + warp_of_block() * kWarpRows;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      int row = tile_row(n);
      int distance = a.causal ? query + tile_column(n) - key - row : 0;
      if ((bits >> (key + row) % kTallTile & 1) == 0) distance = -kTallTile;
#pragma unroll
      for (int t = 0; t < kScoreTiles; ++t) {
        if (distance + t * 8 < 0) scores[t][n] = 0;
      }
    }
  }
  // Gradients of logits times power.scale, as factors.
  __device__ __forceinline__ void grade(int half) {
    float scale = power.scale * kOfWeights;
    const std::byte* means = numbers(stage(0, half), 1);
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t) {
      float2 mean = two_of(means, t);
      mean = make_float2(mean.x * scale, mean.y * scale);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        float2 weight = unpacked(pair_of(weights, t, row), Element{});
        const float* two = &dscores[t][2 * row];
        pair_of(dweights, t, row) = packed<Element>(weight.x * fmaf(two[0], scale, -mean.x),
                                                    weight.y * fmaf(two[1], scale, -mean.y));
      }
    }
  }
  // The gradients of logits to shared memory, by rows of keys.
  __device__ __forceinline__ void keep_grads() const {
    uint32_t to = shared_address(room) + grads(0) + keep_place;
#pragma unroll
    for (int n = 0; n < kTallTile / 16; ++n) store_matrix_x4(to ^ n * 32, dweights.at[n]);
  }

  // sums[r][c] = rows_r · columns_c, r of the group's keys or values, c of a tile of queries or dy.
  __device__ __forceinline__ void start_dots(const Step& step, unsigned place, int which,
                                             TallScores& sums) const {
    Panels rows(owned(step, which) + group * kGroupRows * kPanelBytes);
    Panels columns(tile(place, which));
#pragma unroll
    for (int x = 0; x < kPanelBytes; x += 32) {
      start_product<Element>(sums, rows.at(x), columns.at(x), x > 0);
    }
    commit_products();
  }
  __device__ __forceinline__ void start_scores(unsigned ahead, int half) {
    start_dots(steps.ahead(ahead), stage(ahead, half), 0, scores);
  }
  __device__ __forceinline__ void start_dscores(int half) {
    start_dots(steps.now(), stage(0, half), 1, dscores);
  }
  // sums_r (+)= Σ over a tile's queries c of factors[r][c] · rows_c
  __device__ __forceinline__ void start_sums(const TallWeights<Size>& factors, uint32_t rows,
                                             bool keeps, Results& sums) const {
    Panels panels(rows);
#pragma unroll
    for (int c = 0; c < kTallTile; c += 16) {
      start_product<Element, true>(sums, factors.at[c / 16], panels.at(c * kPanelBytes),
                                   keeps || c > 0);
    }
    commit_products();
  }
  __device__ __forceinline__ void start_values(int half) {
    start_sums(weights, tile(stage(0, half), 1), half > 0 || steps.now().turn > 0, of_values);
  }
  __device__ __forceinline__ void start_keys(unsigned place, bool keeps) {
    start_sums(dweights, tile(place, 0), keeps, of_keys);
  }
  // Of the last step: of_queries[i] (+)= Σ over keys of gradients[key][i] · key
  __device__ __forceinline__ void start_queries() {
    Panels left(shared_address(room) + grads(kGradRooms - kHalves + group));
    Panels right(owned(steps.last(), 0));
    bool keeps = steps.last().adds;
#pragma unroll
    for (int row = 0; row < kTallRows; row += 16) {
      int place = row * kPanelBytes;
      start_product<Element, true>(of_queries, left.at(place), right.at(place), keeps || row > 0);
    }
    commit_products();
  }

  __device__ float4* sums_of(const Step& step) const {
    uint64_t span = static_cast<unsigned>(step.span);
    return sums + span * (kHalves * kSumsOfTile);
  }
  __device__ __forceinline__ void load_sums() {
    if (!steps.now().adds) return;
    const float4* from = sums_of(steps.now());
#pragma unroll
    for (int t = 0; t < Size::kTiles; ++t) {
      float4 four = __ldcg(from + t * kGroupThreads);
      of_queries[t][0] = four.x, of_queries[t][1] = four.y;
      of_queries[t][2] = four.z, of_queries[t][3] = four.w;
    }
  }
  __device__ __forceinline__ void store_queries(const TallGradient& dq) const {
    const Step& last = steps.last();
    if (last.is_last) {
      int first = last.span * kTallRows + warp_of_block() * kWarpRows;
      WarpStore<Size> store(a, head(), dq, a.tq, first, store_room());
      store(dq.factor * power.inverse, of_queries);
    } else if (last.exists) {
      float4* to = sums_of(last);
#pragma unroll
      for (int t = 0; t < Size::kTiles; ++t) {
        const float(&four)[4] = of_queries[t];
        __stcg(to + t * kGroupThreads, make_float4(four[0], four[1], four[2], four[3]));
      }
    }
  }
  __device__ __forceinline__ void store_keys(const TallGradient& to, float factor,
                                             const Results& sums) const {
    int first = steps.last().keys * kTallRows + warp_of_block() * kWarpRows;
    WarpStore<Size>(a, head(), to, a.tk, first, store_room())(factor, sums);
  }
  __device__ __forceinline__ void store_dv(const TallGradient& to) const {
    store_keys(to, to.factor * kOfWeights, of_values);
  }
  __device__ __forceinline__ void store_dk(const TallGradient& to) const {
    store_keys(to, to.factor * power.inverse, of_keys);
  }

  // Until all has been copied, and all threads have come here; then the next copies begin.
  __device__ __forceinline__ void end_tile(unsigned ahead, int half) {
    keep_grads();
    wait_for_copies();
    grad_room = grad_room + 1 < kGradRooms ? grad_room + 1 : 0;
    copy_half(ahead, half);
  }
  // In brackets: what is started, but not waited for.
  __device__ __forceinline__ void take_step(const KeptGradients& to) {
    wait_products<0>(scores);
    settle(of_values);
    begin_products();
    start_dscores(0);
    start_keys(stage(KeptSteps::kKnown - 1, 1), true);  // of the last step
    start_queries();
    if (steps.last().ends) store_dv(to.dv);
    softmax(0);
    weights = TallWeights<Size>(scores);
    begin_products();
    start_values(0);
    start_scores(0, 1);
    wait_products<3>(dscores);  // [dq, dv, scores]
    settle(of_keys);
    keep_factors(dweights);
    if (steps.last().ends) store_dk(to.dk);
    grade(0);
    begin_products();
    start_keys(stage(0, 0), steps.now().turn > 0);
    start_dscores(1);
    wait_products<4>(of_queries);  // [dv, scores, dk, dscores]
    end_tile(1, 1);
    store_queries(to.dq);
    load_sums();
    steps.find_another();
    wait_products<2>(scores);  // [dk, dscores]
    keep_factors(weights);
    softmax(1);
    weights = TallWeights<Size>(scores);
    begin_products();
    start_values(1);
    start_scores(1, 0);
    wait_products<2>(dscores);  // [dv, scores]
    keep_factors(dweights);
    grade(1);
    end_tile(2, 0);
    ++steps.count;
  }
  __device__ __forceinline__ void run(const KeptGradients& to) {
    steps.begin();
    copy_half(0, 0);
    copy_half(0, 1);
    copy_half(1, 0);
    power = find_power();
    wait_for_copies();
    begin_products();
    start_scores(0, 0);
    do {
      take_step(to);
    } while (steps.now().exists);
    wait_products<0>(of_values);
    begin_products();
    start_keys(stage(KeptSteps::kKnown - 1, 1), true);
    start_queries();
    store_dv(to.dv);
    wait_products<0>(of_keys);
    wait_products<0>(of_queries);
    store_dk(to.dk);
    store_queries(to.dq);
  }

  __device__ void store_zeros(const TallGradient& to, int64_t of_sample, int first, int end) const {
    Pair at = head();
    for (int i = static_cast<int>(threadIdx.x); i < (end - first) * a.d; i += kTallThreads) {
      int64_t row = at.batch * of_sample + first + i / a.d;
      store(to.to, row * to.pitch + at.head * a.d + i % a.d, 0);
    }
  }
  // What no step will give: dk and dv of tiles that nobody sees, dq of spans that see none.
  __device__ void store_hidden(const KeptGradients& to) const {
    auto end_of = [](int tiles, int64_t rows) {
      return static_cast<int>(min(rows, int64_t{tiles} * kTallRows));
    };
    for (int tile = 0, shown = steps.next_seen(0); tile < steps.key_tiles; ++tile) {
      if (tile < shown) {
        store_zeros(to.dk, a.tk, tile * kTallRows, end_of(tile + 1, a.tk));
        store_zeros(to.dv, a.tk, tile * kTallRows, end_of(tile + 1, a.tk));
      } else {
        shown = steps.next_seen(tile + 1);
      }
    }
    int first = steps.next_seen(0), blind = a.causal ? first : 0;
    if (first == steps.key_tiles) blind = steps.spans;
    store_zeros(to.dq, a.tq, 0, end_of(blind, a.tq));
  }
};

template <class Size>
__global__ void __launch_bounds__(kTallThreads, 1)
    grad_kept(Attention a, KeptRooms rooms, KeptGradients to) {
  int pairs = static_cast<int>(a.batch) * a.heads;
  for (int pair = static_cast<int>(blockIdx.x); pair < pairs; pair += rooms.blocks) {
    KeptHead<Size> head(a, rooms, pair);
    if (a.has_mask) head.steps.find_seen(pair / a.heads);
    if (a.has_mask) head.store_hidden(to);
    if (head.steps.next_seen(0) < head.steps.key_tiles) head.run(to);
    __syncthreads();  // the next head takes the same places
  }
}

}  // namespace

bool uses_tall_kept(const Launch& launch) {
  Attention a(launch);
  return uses_tall(a) && a.d <= kPanel && std::ranges::all_of(launch.outputs, [](const Buffer& to) {
           return takes_warp_stores(view_of(to));
         });
}

int64_t tall_kept_workspace(const Launch& launch) {
  return uses_tall_kept(launch) ? KeptRooms(Attention(launch), nullptr).bytes : 0;
}

void run_tall_kept_grad(const Launch& launch, const KeptInputs& kept) {
  Attention a(launch);
  KeptRooms rooms(a, launch.workspace.data());
  fill_kept_rooms(a, kept, rooms);
  KeptGradients to{{launch, 0, a.temperature}, {launch, 1, a.temperature}, {launch, 2, 1}};
  auto run = [&]<class Element>(Element) {
    using Size = TallSize<Element, kPanel>;
    launch_with_room("attention", grad_kept<Size>, rooms.blocks, kTallThreads,
                     KeptHead<Size>::floats(a), a, rooms, to);
  };
  if (a.q.type == Type::fp16) {
    run(__half{});
  } else {
    run(__nv_bfloat16{});
  }
}

}  // namespace sigma1::cuda
