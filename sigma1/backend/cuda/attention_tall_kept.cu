// The gradients of attention by tall tiles where forward has kept each query's logarithm and
// result, so that probabilities, and the gradients of logits, are known as soon as a tile's dot
// products are: five products of tiles, where attention_tall_grad.cu and attention_tall_keys.cu
// take eight.
//
// A block has whole heads, one after the other, and a part of a head at either end, so that all
// blocks have as much (attention_tall_kept_shares.cuh). It goes through tiles of 128 keys; for each
// of them through the queries that see any, a tile of 64 at a time. Scores lie transposed, a row
// for each key: a group of four warps has 64 keys, whose dk and dv stay in its registers, with
// scores as left factors as they are. The gradients of logits go through shared memory too, and
// after every second tile dq of both is summed over all 128 keys, of one by each group. Between
// tiles of keys a head's dq lies in memory, which its block alone touches, each thread the same
// numbers, and which the cache holds. No sum depends on what comes first.
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
#include "sigma1/backend/cuda/attention_tall_kept_block.cuh"

namespace sigma1::cuda {
namespace {

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

template <class Size, class Gradient>
struct KeptHead : TallKeptBlock<Size, Gradient> {
  using Block = TallKeptBlock<Size, Gradient>;
  using Gradients = KeptGradients<Gradient>;
  using Store = typename Block::Store;
  using Element = typename Size::Element;
  using Results = typename Size::Results;
  using Block::a, Block::group, Block::power, Block::steps, Block::grads, Block::owned,
      Block::stage, Block::tile, Block::kGradRooms, Block::kGroupThreads, Block::kHalves;

  TallScores scores, dscores;
  TallWeights<Size> weights, dweights;
  Results of_keys, of_values, of_queries;

  __device__ KeptHead(const Attention& of, const KeptRooms& from) : Block(of, from) {}

  // Probabilities times 2^14 take the place of dot products; none where a query does not see.
  __device__ __forceinline__ void softmax(int half, const ColumnNumbers& shifts) {
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float shift = n % 2 == 0 ? shifts.at[t].x : shifts.at[t].y;
        scores[t][n] = fast_exp2(fmaf(scores[t][n], this->rooms.logit_scale, shift));
      }
    }
    if (steps.now.has(StepFacts::kSeesAll)) return;
    int tile = steps.ahead(0).keys;
    uint64_t bits = steps.seen(2 * tile + group);
    int query = steps.now.span() * kTallRows + half * kTallTile;
    int key = tile * kTallRows + warp_of_block() * kWarpRows;
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
  __device__ __forceinline__ void grade(const ColumnNumbers& means) {
    float scale = power.scale * kOfWeights;
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t) {
      float2 mean = make_float2(means.at[t].x * scale, means.at[t].y * scale);
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
    uint32_t to = shared_address(this->room) + grads(0) + this->keep_place;
#pragma unroll
    for (int n = 0; n < kTallTile / 16; ++n) store_matrix_x4(to ^ n * 32, dweights.at[n]);
  }

  // sums[r][c] = rows_r · columns_c, r of the group's keys or values, c of a tile of queries or dy.
  __device__ __forceinline__ void start_dots(StepFacts step, unsigned place, int which,
                                             TallScores& sums) const {
    Panels rows(owned(step, which) + group * kGroupRows * kPanelBytes);
    Panels columns(tile(place, which));
#pragma unroll
    for (int x = 0; x < kPanelBytes; x += 32) {
      start_product<Element>(sums, rows.at(x), columns.at(x), x > 0);
    }
    commit_products();
  }
  __device__ __forceinline__ void start_scores(StepFacts step, unsigned ahead, int half) {
    start_dots(step, stage(ahead, half), 0, scores);
  }
  __device__ __forceinline__ void start_dscores(int half) {
    start_dots(steps.now, stage(0, half), 1, dscores);
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
    bool keeps = half > 0 || !steps.now.has(StepFacts::kBegins);
    start_sums(weights, tile(stage(0, half), 1), keeps, of_values);
  }
  __device__ __forceinline__ void start_keys(unsigned place, bool keeps) {
    start_sums(dweights, tile(place, 0), keeps, of_keys);
  }
  // Of the last step: of_queries[i] (+)= Σ over keys of gradients[key][i] · key
  __device__ __forceinline__ void start_queries() {
    Panels left(shared_address(this->room) + grads(kGradRooms - kHalves + group));
    Panels right(owned(steps.last, 0));
    bool keeps = steps.last.has(StepFacts::kAdds);
#pragma unroll
    for (int row = 0; row < kTallRows; row += 16) {
      int place = row * kPanelBytes;
      start_product<Element, true>(of_queries, left.at(place), right.at(place), keeps || row > 0);
    }
    commit_products();
  }

  __device__ __forceinline__ void load_sums() {
    if (!steps.now.has(StepFacts::kAdds)) return;
    const float4* from = this->sums_of(this->sums, steps.now);
#pragma unroll
    for (int t = 0; t < Size::kTiles; ++t) {
      float4 four = __ldcg(from + t * kGroupThreads);
      of_queries[t][0] = four.x, of_queries[t][1] = four.y;
      of_queries[t][2] = four.z, of_queries[t][3] = four.w;
    }
  }
  // What other blocks have found of the same queries.
  __device__ __forceinline__ void add_others() {
#pragma unroll 1
    for (int n = 0; n < KeptRooms::kMostOthers; ++n) {
      if (steps.part().others[n] > steps.last.span()) continue;
      int block = static_cast<int>(blockIdx.x) + 1 + n;
      wait_until_set(this->rooms.done + block);
      const float4* from = this->sums_of(this->sums_of(this->rooms.late_sums, block), steps.last);
#pragma unroll
      for (int t = 0; t < Size::kTiles; ++t) {
        float4 four = __ldcg(from + t * kGroupThreads);
        of_queries[t][0] += four.x, of_queries[t][1] += four.y;
        of_queries[t][2] += four.z, of_queries[t][3] += four.w;
      }
    }
  }
  __device__ __forceinline__ void store_queries(const Gradient& dq) {
    if (steps.last.has(StepFacts::kIsLast)) {
      add_others();
      int first = steps.last.span() * kTallRows + warp_of_block() * kWarpRows;
      Store store(a, this->head(), dq, a.tq, first, this->store_room());
      store(dq.factor * power.inverse, of_queries);
    } else if (steps.last.has(StepFacts::kExists)) {
      float4* to = this->sums_of(this->sums, steps.last);
#pragma unroll
      for (int t = 0; t < Size::kTiles; ++t) {
        const float(&four)[4] = of_queries[t];
        __stcg(to + t * kGroupThreads, make_float4(four[0], four[1], four[2], four[3]));
      }
    }
  }
  __device__ __forceinline__ void store_keys(const Gradient& to, float factor,
                                             const Results& sums) const {
    int first = steps.before().keys * kTallRows + warp_of_block() * kWarpRows;
    Store(a, this->head(), to, a.tk, first, this->store_room())(factor, sums);
  }
  __device__ __forceinline__ void store_dv(const Gradient& to) const {
    store_keys(to, to.factor * kOfWeights, of_values);
  }
  __device__ __forceinline__ void store_dk(const Gradient& to) const {
    store_keys(to, to.factor * power.inverse, of_keys);
  }

  // Until all has been copied, and all threads have come here; then the next copies begin.
  __device__ __forceinline__ void end_tile(unsigned ahead, int half) {
    keep_grads();
    StepFacts copied = steps.facts_ahead(ahead);
    wait_for_copies();
    this->advance_grads();
    this->copy_half(copied, ahead, half);
  }
  // In brackets: what is started, but not waited for. Numbers from shared memory are asked for well
  // before they are needed, and not behind a queue of stores.
  __device__ __forceinline__ void take_step(const Gradients& to) {
    wait_products<0>(scores);
    settle(of_values);
    keep_factors(weights);
    ColumnNumbers shifts = this->numbers_of(stage(0, 0), 0);
    begin_products();
    start_dscores(0);
    start_keys(stage(KeptSteps::kKnown - 1, 1), true);  // of the last step
    start_queries();
    if (steps.last.has(StepFacts::kEnds)) store_dv(to.dv);
    softmax(0, shifts);
    weights = TallWeights<Size>(scores);
    ColumnNumbers means = this->numbers_of(stage(0, 0), 1);
    steps.find_another();  // while tensor cores are busy
    begin_products();
    start_values(0);
    start_scores(steps.now, 0, 1);
    wait_products<3>(dscores);  // [dq, dv, scores]
    settle(of_keys);
    keep_factors(dweights);
    if (steps.last.has(StepFacts::kEnds)) store_dk(to.dk);
    grade(means);
    begin_products();
    start_keys(stage(0, 0), !steps.now.has(StepFacts::kBegins));
    start_dscores(1);
    wait_products<4>(of_queries);  // [dv, scores, dk, dscores]
    end_tile(1, 1);
    shifts = this->numbers_of(stage(0, 1), 0);
    StepFacts next = steps.facts_ahead(1);
    store_queries(to.dq);
    wait_products<2>(scores);  // [dk, dscores]
    keep_factors(weights);
    softmax(1, shifts);
    means = this->numbers_of(stage(0, 1), 1);
    load_sums();
    weights = TallWeights<Size>(scores);
    begin_products();
    start_values(1);
    start_scores(next, 1, 0);
    wait_products<2>(dscores);  // [dv, scores]
    keep_factors(dweights);
    grade(means);
    end_tile(2, 0);
    steps.advance(next);
  }
  __device__ __forceinline__ void run(const Gradients& to) {
    steps.find_first();
    this->copy_half(steps.now, 0, 0);
    this->copy_half(steps.now, 0, 1);
    this->copy_half(steps.facts_ahead(1), 1, 0);
    power = this->find_power();
    wait_for_copies();
    begin_products();
    start_scores(steps.now, 0, 0);
    do {
      take_step(to);
    } while (steps.now.has(StepFacts::kExists));
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
};

template <class Size, class Gradient>
__global__ void __launch_bounds__(kTallThreads, 1)
    grad_kept(Attention a, KeptRooms rooms, KeptGradients<Gradient> to) {
  KeptHead<Size, Gradient> head(a, rooms);
  for (int number = 0; head.steps.find_part(number); ++number) {
    head.begin_part();
    if (a.has_mask) head.find_hidden(to);
    if (head.steps.has_keys()) head.run(to);
    head.end_part(to);
  }
}

template <class Gradient>
void run_gradients(const Launch& launch, const KeptInputs& kept,
                   const KeptGradients<Gradient>& to) {
  Attention a(launch);
  KeptRooms rooms(a, launch.workspace.data());
  fill_kept_rooms(a, kept, rooms);
  auto run = [&]<class Element>(Element) {
    using Size = TallSize<Element, kPanel>;
    launch_with_room("attention", grad_kept<Size, Gradient>, rooms.blocks, kTallThreads,
                     KeptHead<Size, Gradient>::floats(a), a, rooms, to);
  };
  if (a.q.type == Type::fp16) {
    run(__half{});
  } else if constexpr (std::is_same_v<Gradient, TallGradient>) {
    run(__nv_bfloat16{});
  } else {
    throw Bug("cuda: codes of gradients are found from fp16");
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
  float temperature = Attention(launch).temperature;
  run_gradients<TallGradient>(launch, kept,
                              {{launch, 0, temperature}, {launch, 1, temperature}, {launch, 2, 1}});
}

void run_tall_kept_codes(const Launch& launch, const KeptInputs& kept, const KeptCodes& codes) {
  float temperature = Attention(launch).temperature;
  int64_t rows = launch.out().count() / launch.out().shape.back(), before = 0;
  auto gradient = [&](int number, float by) {
    auto output = static_cast<size_t>(number);
    CodeGradient to{{launch, output, by}, number, nullptr, rows, nullptr};
    if (codes.turned != nullptr) to.turned = codes.turned + before * rows;
    if (codes.sums != nullptr) to.sums = codes.sums + before;
    before += launch.out(output).shape.back();
    return to;
  };
  CodeGradient dq = gradient(0, temperature), dk = gradient(1, temperature), dv = gradient(2, 1);
  run_gradients<CodeGradient>(launch, kept, {dq, dk, dv});
}

int64_t kept_sum_parts(const Launch& launch) {
  return Attention(launch).batch * CodeGradient::kSlots;
}

bool gives_kept_codes(const Launch& launch) {
  Attention a(launch);
  return uses_tall_kept(launch) && a.q.type == Type::fp16 && a.tq == a.tk &&
         a.tq % kWarpRows == 0 && view_of(launch.out()).type == Type::e5m2;
}

}  // namespace sigma1::cuda
