// Attention by tensor cores where there is enough of it to fill the GPU: a block owns 128 rows of
// results, a group of four warps 64 of them, and goes through the other side of the scores tile by
// tile, which are copied while the tile before is used. Nothing is passed between warps. Private to
// this folder; see attention_mma.cuh for kernels that own 16 rows.
//
// Weights are 2^(logit − reference), where the reference is the largest logit when the row's sums
// were last shrunk: not before a logit exceeds it by kSlack, which after the first keys is rare.
#pragma once

#include "sigma1/backend/cuda/attention_mma.cuh"
#include "sigma1/backend/cuda/tma.cuh"
#include "sigma1/backend/cuda/wgmma.cuh"

namespace sigma1::cuda {

inline constexpr int kTallRows = 128;  // that a block owns
inline constexpr int kTallTile = 64;   // rows of the other side that are copied together
inline constexpr int kGroupRows = 64, kWarpRows = 16;
inline constexpr int kTallThreads = kTallRows / kWarpRows * 32;
inline constexpr float kSlack = 3;  // in units of log 2
// Weights lie below 2^14, as the kernels for small models have them.
inline constexpr float kLargestWeight = 14, kWeightShift = kLargestWeight - kSlack;

inline constexpr int kElementBytes = 2;

// Calls run(MmaSize) of the inputs' format, of 16 bits.
template <class Run>
void with_tall_size(const Attention& a, Run run) {
  auto of = [&]<class Element>(Element) {
    if (a.d <= 64) {
      run(MmaSize<Element, 64>{});
    } else {
      run(MmaSize<Element, 128>{});
    }
  };
  if (a.q.type == Type::fp16) {
    of(__half{});
  } else {
    of(__nv_bfloat16{});
  }
}

// Rows in shared memory lie in panels of 64 of their numbers, one after the other.
inline constexpr int kPanel = 64, kPanelBytes = kPanel * kElementBytes;

template <class Number, int kNumbers>
struct TallSize {
  using Element = Number;
  static constexpr int kHead = kNumbers;  // numbers of a head at most; the rest is zeros
  static constexpr int kTiles = kNumbers / 8, kPanels = kNumbers / kPanel;
  static constexpr int kRowBytes = kNumbers * kElementBytes;
  static constexpr int kOwnedBytes = kTallRows * kRowBytes, kTileBytes = kTallTile * kRowBytes;
  using Results = float[kTiles][4];
};

// A warp's 16 rows of scores, with a tile of the other side.
inline constexpr int kScoreTiles = kTallTile / 8;
using TallScores = float[kScoreTiles][4];

// Blocks of the heads of one group come one after the other, so that the cache holds what they
// share; those of a group by tile: where tiles differ, the longest are to come first, and groups
// have to be large enough that the last one's do not end late.
struct TallGrid {
  int tiles, group;

  // `bytes`: what all blocks of one head read.
  TallGrid(const Attention& a, int64_t rows, int64_t bytes)
      : tiles(static_cast<int>((rows + kTallRows - 1) / kTallRows)) {
    constexpr int64_t kCached = int64_t{16} << 20, kFewest = 1024;
    int64_t heads = max(kCached / bytes, (kFewest + tiles - 1) / tiles);
    group = static_cast<int>(min(a.pairs(), heads));
  }
  int64_t blocks(const Attention& a) const { return a.pairs() * tiles; }
  __device__ Pair pair(const Attention& a) const {
    Pair at(a);
    int pairs = static_cast<int>(a.batch) * a.heads, block = static_cast<int>(blockIdx.x);
    int first = block / (group * tiles) * group, left = block - first * tiles;
    int count = min(group, pairs - first);
    at.tile = left / count;
    at.pair = first + left % count;
    at.batch = at.pair / a.heads;
    at.head = at.pair % a.heads;
    return at;
  }
};

// Where 16 bytes of a row lie from the first row of kRows on: see panel_of.
template <int kRows>
__device__ int piece_place(int row, int piece) {
  return (piece / 8 * kRows + row) * kPanelBytes + (piece % 8 ^ row % 8) * 16;
}

// Rows [first, first + kRows) of one head of a tensor of `rows` vectors a sample, zeros behind the
// last; asynchronous, by all threads of the block.
template <class Size, int kRows>
__device__ void copy_tall(const Attention& a, const Pair& at, const View& from, int64_t pitch,
                          int64_t rows, int first, uint32_t to) {
  constexpr int kEach = 8, kPieces = Size::kHead / kEach, kPass = kTallThreads / kPieces;
  static_assert(kPass % 8 == 0 && kRows % kPass == 0);
  int row = static_cast<int>(threadIdx.x) / kPieces;
  int piece = static_cast<int>(threadIdx.x) % kPieces;
  const auto* source = static_cast<const typename Size::Element*>(from.data);
  source += (at.batch * rows + first + row) * pitch + at.head * a.d + piece * kEach;
  int end = piece * kEach < a.d ? static_cast<int>(rows) - first : 0;
  to += piece_place<kRows>(row, piece);
#pragma unroll
  for (int pass = 0; pass < kRows; pass += kPass) {
    copy_16_async(to + pass * kPanelBytes, source, pass + row < end);
    source += kPass * pitch;
  }
}

// Until all that the block copies is there, and all threads are done with what was there before.
__device__ inline void wait_for_copies() {
  wait_copies<0>();
  show_to_tensor_cores();
  __syncthreads();
}

// sums[r][c] = rows_r · columns_c, r of the group's rows of one of the block's tensors, c of a
// tile; a group of products. Rows are read by the tensor cores every time: where they were kept in
// registers through the loop over tiles, the compiler (13.0) took those registers for other things.
template <class Size>
__device__ void start_dots(uint32_t owned, uint32_t columns, TallScores& sums) {
  owned += warp_of_block() * kWarpRows / kGroupRows * kGroupRows * kPanelBytes;
#pragma unroll
  for (int x = 0; x < Size::kHead; x += 16) {
    uint32_t panel = x / kPanel * kPanelBytes, offset = x % kPanel * kElementBytes;
    start_product<typename Size::Element>(sums, panel_of(owned + panel * kTallRows + offset),
                                          panel_of(columns + panel * kTallTile + offset), x > 0);
  }
  commit_products();
}

// Scores, rounded, as left factors of what is summed over their columns.
template <class Size>
struct TallWeights {
  uint32_t at[kTallTile / 16][4];

  TallWeights() = default;
  __device__ explicit TallWeights(const TallScores& scores) {
#pragma unroll
    for (int n = 0; n < kTallTile / 4; ++n) {
      const float* two = &scores[n / 2][n % 2 * 2];
      at[n / 4][n % 4] = packed<typename Size::Element>(two[0], two[1]);
    }
  }
  // sums_r = (keeps ? sums_r : 0) + Σ over the tile's c of weights[r][c] · rows_c
  __device__ void start(uint32_t rows, typename Size::Results& sums, bool keeps = true) const {
#pragma unroll
    for (int p = 0; p < Size::kPanels; ++p) {
#pragma unroll
      for (int c = 0; c < kTallTile; c += 16) {
        uint64_t panel = panel_of(rows + (p * kTallTile + c) * kPanelBytes);
        start_product<typename Size::Element, true>(sums + p * kScoreTiles, at[c / 16], panel,
                                                    keeps || c > 0);
      }
    }
  }
};

// The largest of a row's scores that the lane has.
__device__ inline float row_most(const TallScores& scores, int half) {
  float most = -INFINITY;
#pragma unroll
  for (int t = 0; t < kScoreTiles; ++t) {
    most = fmaxf(most, fmaxf(scores[t][2 * half], scores[t][2 * half + 1]));
  }
  return most;
}

// −∞ for scores that are not to be seen, and 0 in `others`: those of columns whose bit is not set,
// and, in the warp's row r, those from column last + r + 1 on.
__device__ inline void hide_scores(uint64_t bits, int last, TallScores& scores,
                                   TallScores* others = nullptr) {
  if (bits == ~uint64_t{0} && last >= kTallTile - 1) return;
  bits >>= tile_column(0);
  last -= tile_column(0);
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    int last_of_row = last + tile_row(n);
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t) {
      int column = t * 8 + n % 2;
      if ((bits >> column & 1) != 0 && column <= last_of_row) continue;
      scores[t][n] = -INFINITY;
      if (others != nullptr) (*others)[t][n] = 0;
    }
  }
}

// As store_tall, of 8 bits. A row's codes lie where its numbers lay, and nowhere else: other warps
// may still be at theirs.
template <class Size>
__device__ void store_tall_bytes(const Attention& a, const Pair& at, const View& to, int64_t pitch,
                                 int64_t rows, int first, std::byte* room,
                                 const float (&factors)[2], const typename Size::Results& sums) {
  constexpr int kEach = 16, kPieces = Size::kHead / kEach;
  __nv_saturation_t saturation = to.saturates ? __NV_SATFINITE : __NV_NOSAT;
  __nv_fp8_interpretation_t format = to.type == Type::e4m3 ? __NV_E4M3 : __NV_E5M2;
  int warp_row = warp_of_block() * kWarpRows;
#pragma unroll
  for (int n = 0; n < Size::kTiles * 2; ++n) {
    int t = n / 2, half = n % 2, row = warp_row + tile_row(2 * half);
    float factor = factors[half];
    float2 two = make_float2(sums[t][2 * half] * factor, sums[t][2 * half + 1] * factor);
    if (factor == 0) two = make_float2(0, 0);
    std::byte* place = room + piece_place<kTallRows>(row, t / 2) + t % 2 * 8 + tile_column(0);
    *reinterpret_cast<uint16_t*>(place) = __nv_cvt_float2_to_fp8x2(two, saturation, format);
  }
  __syncwarp();
  int piece = lane_of_warp() % kPieces;
  auto* target = static_cast<uint8_t*>(to.data) + at.head * a.d + piece * kEach;
#pragma unroll
  for (int n = 0; n < kWarpRows; n += 32 / kPieces) {
    int row = warp_row + n + lane_of_warp() / kPieces;
    if (piece * kEach >= a.d || first + row >= rows) break;
    *reinterpret_cast<uint4*>(target + (at.batch * rows + first + row) * pitch) =
        *reinterpret_cast<const uint4*>(room + piece_place<kTallRows>(row, piece));
  }
}

// The warp's rows of results, each times its factor, zeros where that is zero, of the block's rows
// from row `first` on; `room`: the block's own rows in shared memory, which no one reads any more.
template <class Size>
__device__ void store_tall(const Attention& a, const Pair& at, const View& to, int64_t pitch,
                           int64_t rows, int first, std::byte* room, const float (&factors)[2],
                           const typename Size::Results& sums) {
  if ((to.type == Type::e4m3 || to.type == Type::e5m2) && a.d % 16 == 0) {
    return store_tall_bytes<Size>(a, at, to, pitch, rows, first, room, factors, sums);
  }
  bool is_half = to.type == Type::fp16;
  bool wide = (is_half || to.type == Type::bf16) && !to.saturates &&
              reinterpret_cast<uintptr_t>(to.data) % 16 == 0;
  int warp_row = warp_of_block() * kWarpRows;
#pragma unroll
  for (int n = 0; n < Size::kTiles * 2; ++n) {
    int t = n / 2, half = n % 2, row = warp_row + tile_row(2 * half);
    float factor = factors[half];
    float2 two = make_float2(sums[t][2 * half] * factor, sums[t][2 * half + 1] * factor);
    if (factor == 0) two = make_float2(0, 0);
    if (wide) {
      auto* place = reinterpret_cast<uint32_t*>(room + piece_place<kTallRows>(row, t));
      place[tile_pair()] =
          is_half ? packed<__half>(two.x, two.y) : packed<__nv_bfloat16>(two.x, two.y);
    } else {
      int64_t x = t * 8 + tile_column(0), of_sample = first + row;
      bool exists = of_sample < rows && x < a.d;
      if (exists) store_two(to, (at.batch * rows + of_sample) * pitch + at.head * a.d + x, two);
    }
  }
  if (!wide) return;
  __syncwarp();
  constexpr int kEach = 8, kPieces = Size::kHead / kEach;
  int piece = lane_of_warp() % kPieces;
  auto* target = static_cast<uint16_t*>(to.data) + at.head * a.d + piece * kEach;
#pragma unroll
  for (int n = 0; n < kWarpRows; n += 32 / kPieces) {
    int row = warp_row + n + lane_of_warp() / kPieces;
    if (piece * kEach >= a.d || first + row >= rows) break;
    *reinterpret_cast<uint4*>(target + (at.batch * rows + first + row) * pitch) =
        *reinterpret_cast<const uint4*>(room + piece_place<kTallRows>(row, piece));
  }
}

// Whether attention of these sizes, of what uses_tensor_cores takes, is computed by tall tiles.
bool uses_tall(const Attention& a);
void run_attention_tall(const Launch& launch);
void run_attention_grad_tall(const Launch& launch);
int64_t tall_grad_workspace(const Attention& a);

}  // namespace sigma1::cuda
