// Attention by tensor cores where there is enough of it to fill the GPU: a block owns 128 rows of
// results, its warps have 16 or 32 of them each, and go through the other side of the scores tile
// by tile, which are copied while the tile before is used. Nothing is passed between warps. What a
// warp reads of a tile serves all its rows: reading shared memory is what limits these kernels next
// to the tensor cores. Private to this folder; see attention_mma.cuh for kernels that own 16 rows.
//
// Weights are 2^(logit − reference), where the reference is the largest logit when the row's sums
// were last shrunk: not before a logit exceeds it by kSlack, which after the first keys is rare.
#pragma once

#include "sigma1/backend/cuda/attention_mma.cuh"
#include "sigma1/backend/cuda/tma.cuh"

namespace sigma1::cuda {

inline constexpr int kTallRows = 128;  // that a block owns
inline constexpr int kTallTile = 64;   // rows of the other side that are copied together
inline constexpr float kSlack = 3;     // in units of log 2
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

// kOfWarp rows are a warp's, kColumns those of the scores that it has in registers.
template <class Number, int kNumbers, int kOfWarp, int kColumns>
struct TallSize {
  using Element = Number;
  static constexpr int kHead = kNumbers;  // numbers of a head at most; the rest is zeros
  static constexpr int kWarpRows = kOfWarp, kStep = kColumns;
  static constexpr int kM = kOfWarp / 16, kN = kColumns / 8, kTiles = kNumbers / 8;
  static constexpr int kBlockThreads = kTallRows / kOfWarp * 32;
  static constexpr int kRowBytes = kNumbers * kElementBytes;
  static constexpr int kOwnedBytes = kTallRows * kRowBytes, kTileBytes = kTallTile * kRowBytes;
  using Scores = float[kM][kN][4];
  using Results = float[kM][kTiles][4];
};

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

// Where 16 bytes of a row lie from the first row on: in eight neighbouring rows the same piece is
// in other banks each.
template <class Size>
__device__ uint32_t piece_place(int row, int piece) {
  return static_cast<uint32_t>(row * Size::kRowBytes + ((piece ^ (row % 8)) * 16));
}

// Rows [first, first + kRows) of one head from `start` on, zeros from `limit` on; asynchronous, by
// all threads of the block.
template <class Size, int kRows>
__device__ void copy_tall(const Attention& a, const View& from, int64_t start, int first,
                          int64_t limit, uint32_t to) {
  constexpr int kEach = 8, kPieces = Size::kHead / kEach, kPass = Size::kBlockThreads / kPieces;
  static_assert(kPass % 8 == 0 && kRows % kPass == 0);
  int row = static_cast<int>(threadIdx.x) / kPieces,
      piece = static_cast<int>(threadIdx.x) % kPieces;
  const auto* source = static_cast<const typename Size::Element*>(from.data) + start;
  source += (first + row) * a.width + piece * kEach;
  int end = piece * kEach < a.d ? static_cast<int>(limit) - first : 0;
  to += piece_place<Size>(row, piece);
#pragma unroll
  for (int pass = 0; pass < kRows; pass += kPass) {
    copy_16_async(to + pass * Size::kRowBytes, source, pass + row < end);
    source += kPass * a.width;
  }
}

// What a lane names of 16 rows as a left factor, or as a right one of products; and as a right one
// of dots. Numbers from x on, x a multiple of 16, are at (this ^ x · kElementBytes).
template <class Size>
__device__ uint32_t lane_of_left(uint32_t rows) {
  return rows + piece_place<Size>(lane_of_warp() % 16, lane_of_warp() / 16);
}
template <class Size>
__device__ uint32_t lane_of_right(uint32_t rows) {
  int lane = lane_of_warp();
  return rows + piece_place<Size>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
}

// The warp's rows as left factors: read from shared memory whenever they are needed, or kept.
template <class Size>
struct RoomLeft {
  uint32_t lane;

  __device__ void step(int x, uint32_t (&to)[Size::kM][4]) const {
#pragma unroll
    for (int m = 0; m < Size::kM; ++m) {
      load_matrix_x4(to[m], (lane ^ (x * kElementBytes)) + m * 16 * Size::kRowBytes);
    }
  }
};
template <class Size>
struct KeptLeft {
  uint32_t at[Size::kHead / 16][Size::kM][4];

  __device__ void step(int x, uint32_t (&to)[Size::kM][4]) const {
#pragma unroll
    for (int n = 0; n < 4 * Size::kM; ++n) to[n / 4][n % 4] = at[x / 16][n / 4][n % 4];
  }
};

// sums[r][c] += left_r · columns_c; `columns` as lane_of_right names the first.
template <class Size, class Left>
__device__ void add_tall_dots(const Left& left, uint32_t columns, typename Size::Scores& sums) {
#pragma unroll
  for (int x = 0; x < Size::kHead; x += 16) {
    uint32_t rows[Size::kM][4];
    left.step(x, rows);
#pragma unroll
    for (int n = 0; n < Size::kN; n += 2) {
      uint32_t b[4];
      load_matrix_x4(b, (columns ^ (x * kElementBytes)) + n * 8 * Size::kRowBytes);
#pragma unroll
      for (int m = 0; m < Size::kM; ++m) {
        mma_16x8x16<typename Size::Element>(sums[m][n], rows[m], {b[0], b[1]});
        mma_16x8x16<typename Size::Element>(sums[m][n + 1], rows[m], {b[2], b[3]});
      }
    }
  }
}

// sums_r += Σ over 16 columns c of weights[r][c] · rows_c; `rows` as lane_of_left names the first.
template <class Size, int kCount>
__device__ void add_tall_products(const uint32_t (&weights)[kCount][4], uint32_t rows,
                                  float (&sums)[kCount][Size::kTiles][4]) {
#pragma unroll
  for (int n = 0; n < Size::kTiles; n += 2) {
    uint32_t b[4];
    load_matrix_x4_transposed(b, rows ^ (n * 8 * kElementBytes));
#pragma unroll
    for (int m = 0; m < kCount; ++m) {
      mma_16x8x16<typename Size::Element>(sums[m][n], weights[m], {b[0], b[1]});
      mma_16x8x16<typename Size::Element>(sums[m][n + 1], weights[m], {b[2], b[3]});
    }
  }
}

// The largest of a row's scores that the lane has.
template <class Size>
__device__ float row_most(const typename Size::Scores& scores, int m, int half) {
  float most = -INFINITY;
#pragma unroll
  for (int t = 0; t < Size::kN; ++t) {
    most = fmaxf(most, fmaxf(scores[m][t][2 * half], scores[m][t][2 * half + 1]));
  }
  return most;
}

// Of 16 columns of scores, from tile t on, as a left factor.
template <class Size, int kCount>
__device__ void round_weights(const typename Size::Scores& scores, int t, int to,
                              uint32_t (&weights)[kCount][4]) {
#pragma unroll
  for (int m = 0; m < Size::kM; ++m) {
    const float(&left)[4] = scores[m][t], (&right)[4] = scores[m][t + 1];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      using Element = typename Size::Element;
      weights[to + m][half] = packed<Element>(left[2 * half], left[2 * half + 1]);
      weights[to + m][half + 2] = packed<Element>(right[2 * half], right[2 * half + 1]);
    }
  }
}

// The warp's rows of results, each times its factor, zeros where that is zero, from row `first` on;
// `room`: the warp's own rows in shared memory, which no one reads any more.
template <class Size>
__device__ void store_tall(const Attention& a, const Pair& at, const View& to, int64_t rows,
                           int first, std::byte* room, const float (&factors)[Size::kM][2],
                           const typename Size::Results& sums) {
  bool is_half = to.type == Type::fp16;
  bool wide = (is_half || to.type == Type::bf16) && !to.saturates &&
              reinterpret_cast<uintptr_t>(to.data) % 16 == 0;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < Size::kM * Size::kTiles * 2; ++n) {
    int m = n / 2 / Size::kTiles, t = n / 2 % Size::kTiles, half = n % 2;
    int row = m * 16 + tile_row(2 * half);
    float factor = factors[m][half];
    float2 two = make_float2(sums[m][t][2 * half] * factor, sums[m][t][2 * half + 1] * factor);
    if (factor == 0) two = make_float2(0, 0);
    if (wide) {
      auto* place = reinterpret_cast<uint32_t*>(room + piece_place<Size>(row, t)) + tile_pair();
      *place = is_half ? packed<__half>(two.x, two.y) : packed<__nv_bfloat16>(two.x, two.y);
    } else {
      store_two(a, at, to, rows, first + row, t * 8 + tile_column(0), two);
    }
  }
  if (!wide) return;
  __syncwarp();
  constexpr int kEach = 8, kPieces = Size::kHead / kEach;
  int piece = lane_of_warp() % kPieces;
  if (piece * kEach >= a.d) return;
  auto* target = static_cast<uint16_t*>(to.data) + at.start(a, rows) + piece * kEach;
#pragma unroll 4
  for (int row = lane_of_warp() / kPieces; row < Size::kWarpRows; row += 32 / kPieces) {
    if (first + row >= rows) break;
    *reinterpret_cast<uint4*>(target + (first + row) * a.width) =
        *reinterpret_cast<const uint4*>(room + piece_place<Size>(row, piece));
  }
}

// Whether attention of these sizes, of what uses_tensor_cores takes, is computed by tall tiles.
bool uses_tall(const Attention& a);
void run_attention_tall(const Launch& launch);
void run_attention_grad_tall(const Launch& launch);
int64_t tall_grad_workspace(const Attention& a);

}  // namespace sigma1::cuda
