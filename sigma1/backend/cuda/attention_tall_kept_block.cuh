// A block that finds the gradients of a head by tall tiles from what forward has kept: where things
// lie in shared memory, and how they come there. What is done with them: attention_tall_kept.cu.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_tall_kept.cuh"
#include "sigma1/backend/cuda/attention_tall_kept_steps.cuh"
#include "sigma1/backend/cuda/attention_warp_codes.cuh"

namespace sigma1::cuda {

// TallGradients, or CodeGradients.
template <class Gradient>
struct KeptGradients {
  Gradient dq, dk, dv;
};

// Of the queries whose scores a thread has.
struct ColumnNumbers {
  float2 at[kScoreTiles];
};

template <class Size, class Gradient>
struct TallKeptBlock {
  using Element = typename Size::Element;
  using Results = typename Size::Results;
  static constexpr int kHalves = kTallRows / kTallTile;  // tiles of a span of queries
  static constexpr int kStages = 4;                      // tiles of queries in shared memory
  static constexpr int kGradRooms = 3;                   // tiles of gradients of logits there
  static constexpr int kGroupThreads = kTallThreads / kHalves;
  // What is copied at once, of rows that are.
  static constexpr int kPiece = 8, kPieces = kPanel / kPiece, kPass = kTallThreads / kPieces;
  static constexpr int kNumbersBytes = kTallTile * static_cast<int>(sizeof(float));
  static constexpr int kSumsOfTile = kTallTile * kPanel / 4;
  static constexpr int kTilesPlace = KeptSteps::kKeyRooms * 2 * Size::kOwnedBytes;
  static constexpr int kGradsPlace = kTilesPlace + kStages * 2 * Size::kTileBytes;
  static constexpr int kRowsPlace = kGradsPlace + kGradRooms * Size::kOwnedBytes;
  static constexpr int kSumsPlace = kRowsPlace + kStages * 2 * kNumbersBytes;
  // Of columns, by warp and gradient, where gradients are stored as codes.
  static constexpr bool kCodes = std::is_same_v<Gradient, CodeGradient>;
  using Store = std::conditional_t<kCodes, WarpCodes<Size>, WarpStore<Size>>;
  static constexpr int kColumnSums = kCodes ? CodeGradient::kCount * kPanel : 0;
  static constexpr int kStepsPlace =
      kSumsPlace + kTallThreads / 32 * kColumnSums * static_cast<int>(sizeof(float));

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
  uint32_t keep_place;    // of a tile's gradients of logits, what it keeps first
  uint32_t column_place;  // of a tile's numbers
  unsigned grad_room;     // where the next tile's gradients of logits will lie

  static int floats(const Attention& of) { return (kStepsPlace + KeptSteps::bytes(of)) / 4; }

  __device__ TallKeptBlock(const Attention& of, const KeptRooms& from)
      : a(of), rooms(from), steps(of, from, room + kStepsPlace) {}

  // Of the part that has been found.
  __device__ __forceinline__ void begin_part() {
    pair = steps.part().pair;
    grad_room = 0;
    Pair at = head();
    int thread = static_cast<int>(threadIdx.x), lane = lane_of_warp();
    group = __shfl_sync(~0U, thread / kGroupThreads, 0);
    int row = thread / kPieces, piece = thread % kPieces;
    int64_t first = at.batch * a.tq + row, x = at.head * a.d + piece * kPiece;
    q = static_cast<const Element*>(a.q.data) + first * a.pitch + x;
    dy = static_cast<const Element*>(a.dy.data) + first * a.width + x;
    copy_place = piece_place<kTallTile>(row, piece);
    copy_rows = piece * kPiece < a.d ? static_cast<int>(a.tq) - row : 0;
    sums = sums_of(steps.part().is_late() ? rooms.late_sums : rooms.sums,
                   static_cast<int>(blockIdx.x));
    keep_place = piece_place<kTallRows>(warp_of_block() * kWarpRows + lane % 16, lane / 16);
    column_place = tile_column(0) * static_cast<int>(sizeof(float));
    // Or the compiler would rather compute them each time.
    asm volatile("" : "+l"(q), "+l"(dy), "+l"(sums), "+r"(copy_place), "+r"(copy_rows));
    asm volatile("" : "+r"(keep_place), "+r"(column_place));
    if constexpr (kCodes) clear_column_sums();
  }

  // What was written is there for other blocks, once all threads have come here.
  __device__ void end_part(const KeptGradients<Gradient>& to) const {
    __syncthreads();
    if (steps.part().is_late() && threadIdx.x == 0) set(rooms.done + blockIdx.x);
    if constexpr (kCodes) store_column_sums(to);
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
  __device__ uint32_t owned(StepFacts step, int which) const {
    return shared_address(room) + (2 * step.room() + which) * Size::kOwnedBytes;
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
  __device__ void advance_grads() { grad_room = grad_room + 1 < kGradRooms ? grad_room + 1 : 0; }
  // Of a tile's queries, shifts (0) and means (1); and what the thread has of them.
  __device__ std::byte* numbers(unsigned place, int which) const {
    return room + kRowsPlace + (2 * place + which) * kNumbersBytes;
  }
  __device__ __forceinline__ ColumnNumbers numbers_of(unsigned place, int which) const {
    const std::byte* from = numbers(place, which) + column_place;
    ColumnNumbers result;
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t) {
      result.at[t] = *reinterpret_cast<const float2*>(from + t * 8 * sizeof(float));
    }
    return result;
  }
  // The warp's rows of the next gradients of logits, as long as it has not written those.
  __device__ auto store_room() const {
    std::byte* rows = room + grads(0) + warp_of_block() * kStoreBytes;
    if constexpr (kCodes) {
      return CodeRoom{rows, column_sums(warp_of_block())};
    } else {
      return rows;
    }
  }

  // A warp's, by gradient.
  __device__ float* column_sums(int warp) const {
    return reinterpret_cast<float*>(room + kSumsPlace) + warp * kColumnSums;
  }
  __device__ void clear_column_sums() const {
    float* own = column_sums(warp_of_block());
    for (int i = lane_of_warp(); i < kColumnSums; i += 32) own[i] = 0;
  }
  // The part's, to the block's slot. Whoever has a head's first keys clears slots that nobody has.
  __device__ void store_column_sums(const KeptGradients<Gradient>& to) const {
    if (to.dq.sums == nullptr) return;
    const HeadPart& part = steps.part();
    Pair at = head();
    for (int i = static_cast<int>(threadIdx.x); i < kColumnSums; i += kTallThreads) {
      int number = i / kPanel, column = i % kPanel;
      if (column >= a.d) continue;
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kTallThreads / 32; ++warp) sum += column_sums(warp)[i];
      float* sums = number == 0 ? to.dq.sums : number == 1 ? to.dk.sums : to.dv.sums;
      sums += at.head * a.d + column;
      auto put = [&](unsigned block, float value) {
        int64_t row = int64_t{at.batch} * CodeGradient::kSlots + block % CodeGradient::kSlots;
        sums[row * to.dq.pitch] = value;
      };
      put(blockIdx.x, sum);
      if (part.is_late()) continue;
#pragma unroll
      for (unsigned n = 0; n < KeptRooms::kMostOthers; ++n) {
        if (part.others[n] == HeadPart::kNone) put(blockIdx.x + 1 + n, 0);
      }
    }
  }

  // The thread's numbers of its group's dq: of a block's first span, and from there of a step's.
  __device__ float4* sums_of(float* of_blocks, int block) const {
    return reinterpret_cast<float4*>(of_blocks) + threadIdx.x % kGroupThreads +
           (int64_t{block} * (rooms.rows / kTallTile) + group) * kSumsOfTile;
  }
  __device__ static float4* sums_of(float4* first, StepFacts step) {
    uint64_t span = static_cast<unsigned>(step.span());
    return first + span * (kHalves * kSumsOfTile);
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
  __device__ __forceinline__ void copy_half(StepFacts step, unsigned ahead, int half) const {
    if (step.has(StepFacts::kExists)) {
      int i = step.span() * kTallRows + half * kTallTile;
      unsigned place = stage(ahead, half);
      if (half == 0 && step.has(StepFacts::kBegins)) {
        int j = steps.ahead(ahead).keys * kTallRows;
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

  __device__ void store_zeros(const Gradient& to, int64_t of_sample, int first, int end) const {
    Pair at = head();
    for (int i = static_cast<int>(threadIdx.x); i < (end - first) * a.d; i += kTallThreads) {
      int64_t row = at.batch * of_sample + first + i / a.d;
      store(to.to, row * to.pitch + at.head * a.d + i % a.d, 0);
    }
    if constexpr (kCodes) {
      if (to.turned == nullptr) return;
      constexpr int kEach = 16;
      int pieces = (end - first) / kEach;
      for (int i = static_cast<int>(threadIdx.x); i < pieces * a.d; i += kTallThreads) {
        int64_t row = at.batch * of_sample + first + i % pieces * kEach;
        uint8_t* column = to.turned + (at.head * a.d + i / pieces) * to.rows;
        *reinterpret_cast<uint4*>(column + row) = make_uint4(0, 0, 0, 0);
      }
    }
  }
  // Where there is a mask. What no step will give are zeros: dk and dv of tiles that nobody sees,
  // dq of spans that see none.
  __device__ void find_hidden(const KeptGradients<Gradient>& to) const {
    steps.find_seen(pair / a.heads);
    auto end_of = [](int tiles, int64_t rows) {
      return static_cast<int>(min(rows, int64_t{tiles} * kTallRows));
    };
    int end = steps.part().end, first = steps.first_seen();
    for (int tile = 0, shown = first; tile < end; ++tile) {
      if (tile < shown) {
        store_zeros(to.dk, a.tk, tile * kTallRows, end_of(tile + 1, a.tk));
        store_zeros(to.dv, a.tk, tile * kTallRows, end_of(tile + 1, a.tk));
      } else {
        shown = steps.next_seen(tile + 1, end);
      }
    }
    int blind = a.causal ? first : 0;
    if (first == end) blind = steps.spans();
    store_zeros(to.dq, a.tq, 0, end_of(blind, a.tq));
  }
};

}  // namespace sigma1::cuda
