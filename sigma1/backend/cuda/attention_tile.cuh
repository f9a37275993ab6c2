// What attention and its gradient share on a GPU: a tile of queries against a tile of keys, in
// shared memory, its scores spread over the registers of a block's threads. Private to this folder.
//
// Threads stand in a square of kSide · kSide: thread (ty, tx) has the tile's rows ty, ty + kSide, …
// and columns tx, tx + kSide, …, be those columns keys or numbers of a head.
//
// With relative positions a score is q_i·(k_j + r_{i−j}). For a tile of queries from i0 and one of
// keys from j0 the 2·kTile − 1 distances lie "skewed": row i − j − (i0 − j0) + kTile − 1 of the
// room is what (i, j) needs. Seen from distances, j = i − distance, it is the keys that lie skewed.
#pragma once

#include "sigma1/backend/cuda/launch.cuh"

namespace sigma1::cuda {

inline constexpr int kSide = 16;
static_assert(kSide * kSide == kThreads);

template <int kRows, int kNumbers>
struct TileSize {
  static constexpr int kTile = kRows;     // queries, and keys or distances, handled together
  static constexpr int kHead = kNumbers;  // numbers of a head at most; the rest is zeros
  static constexpr int kMicro = kRows / kSide;
  static constexpr int kColumns = kNumbers / kSide;
  static constexpr int kStride = kNumbers + 1;  // odd: the same number of many rows, many banks
  static constexpr int kSkewed = 2 * kRows - 1;
  static constexpr int kWeightStride = kRows + 1;
  // Floats of rooms in shared memory.
  static constexpr int kRowsRoom = kTile * kStride;
  static constexpr int kSkewedRoom = kSkewed * kStride;
  static constexpr int kWeightsRoom = kTile * kWeightStride;
};

// Of a row's softmax, as its gradient needs it.
struct RowSums {
  float largest, inverse_sum, mean;  // mean: Σ p·dp
};

struct Attention {
  View q, k, v, relative{}, mask{}, dy{};
  int64_t batch, tq, tk, width;
  int64_t pitch;  // of q, k and v: numbers from one vector to the next
  int heads, d;
  bool causal, has_relative, has_mask;
  float temperature;  // of the logits: multiplier · d^-½

  explicit Attention(const Launch& launch);
  int64_t pairs() const { return batch * heads; }
};

// Attention::d is at most the largest tile's kHead; calls run(TileSize) for the first that fits.
template <class Run>
void with_tile_size(const Attention& a, Run run) {
  if (a.d <= 64) {
    run(TileSize<64, 64>{});
  } else if (a.d <= 128) {
    run(TileSize<64, 128>{});
  } else {
    run(TileSize<32, 256>{});
  }
}

// One block of kThreads for each tile.
template <class... Parameters>
void launch_tiles(void (*kernel)(Parameters...), int64_t blocks, int floats,
                  std::type_identity_t<Parameters>... arguments) {
  launch_with_room("attention", kernel, blocks, kThreads, floats, arguments...);
}

void run_attention(const Launch& launch);
int64_t attention_workspace(const Launch& launch);
void run_attention_grad(const Launch& launch);
int64_t attention_grad_workspace(const Launch& launch);
int64_t attention_grad_state(const Launch& launch);

// dq, dk and dv in fp32 inside, once the sums of all queries' rows are there, and the bytes of
// those.
void run_plain_grads(const Launch& launch, const Attention& a, const RowSums* rows);
int64_t row_sums_bytes(const Attention& a);

// Which head of which sample a block computes, and its number among those of the head.
struct Pair {
  int batch, head, pair, tile;

  __device__ explicit Pair(const Attention& a) {
    unsigned heads = static_cast<unsigned>(a.heads);
    unsigned pairs = static_cast<unsigned>(a.batch) * heads, of_head = blockIdx.x % pairs;
    batch = static_cast<int>(of_head / heads);
    head = static_cast<int>(of_head % heads);
    pair = static_cast<int>(of_head);
    tile = static_cast<int>(blockIdx.x / pairs);
  }
  // Of blocks that take one after another.
  __device__ Pair(const Attention& a, int number)
      : batch(static_cast<int>(static_cast<unsigned>(number) / static_cast<unsigned>(a.heads))),
        head(number - batch * a.heads),
        pair(number),
        tile(0) {}

  // Of the first number in tensors of `rows` vectors a sample.
  __device__ int64_t start(const Attention& a, int64_t rows) const {
    return batch * rows * a.width + head * a.d;
  }
};

__device__ inline int side_x() { return static_cast<int>(threadIdx.x) % kSide; }
__device__ inline int side_y() { return static_cast<int>(threadIdx.x) / kSide; }

// Over the threads of one row; all of them have the result.
__device__ inline float row_sum(float value) {
  for (int lane = kSide / 2; lane > 0; lane /= 2) value += __shfl_xor_sync(~0U, value, lane);
  return value;
}
__device__ inline float row_max(float value) {
  for (int lane = kSide / 2; lane > 0; lane /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0U, value, lane));
  }
  return value;
}

// Rows [first, first + rows) of one head from `start` on, zeros outside [0, limit).
template <class Size>
__device__ void load_rows(const Attention& a, const View& from, int64_t start, int64_t first,
                          int rows, int64_t limit, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * Size::kHead; i += kThreads) {
    int row = i / Size::kHead, x = i % Size::kHead;
    int64_t at = first + row;
    bool inside = 0 <= at && at < limit && x < a.d;
    to[row * Size::kStride + x] = inside ? load(from, start + at * a.width + x) : 0;
  }
}

// What tile (i0, j0) needs of rows by distance, or of keys where j0 is a distance.
template <class Size>
__device__ void load_skewed(const Attention& a, const View& from, int64_t start, int64_t i0,
                            int64_t j0, float* to) {
  load_rows<Size>(a, from, start, i0 - j0 - (Size::kTile - 1), Size::kSkewed, a.tk, to);
}

template <class Size>
using Scores = float[Size::kMicro][Size::kMicro];

// sums[i][j] += rows_i · columns_j
template <class Size>
__device__ void add_dots(const float* rows, const float* columns, int d, Scores<Size>& sums) {
  rows += side_y() * Size::kStride;
  columns += side_x() * Size::kStride;
#pragma unroll 4
  for (int x = 0; x < d; ++x) {
    float row[Size::kMicro], column[Size::kMicro];
#pragma unroll
    for (int r = 0; r < Size::kMicro; ++r) row[r] = rows[r * kSide * Size::kStride + x];
#pragma unroll
    for (int c = 0; c < Size::kMicro; ++c) column[c] = columns[c * kSide * Size::kStride + x];
#pragma unroll
    for (int r = 0; r < Size::kMicro; ++r) {
#pragma unroll
      for (int c = 0; c < Size::kMicro; ++c) sums[r][c] += row[r] * column[c];
    }
  }
}

// sums[i][j] += rows_i · skewed_{i−j}
template <class Size>
__device__ void add_skewed_dots(const float* rows, const float* skewed, int d, Scores<Size>& sums) {
  constexpr int kMicro = Size::kMicro, kDiagonals = 2 * kMicro - 1;
  rows += side_y() * Size::kStride;
  skewed += (side_y() - side_x() + kSide - 1) * Size::kStride;
#pragma unroll 4
  for (int x = 0; x < d; ++x) {
    float row[kMicro], diagonal[kDiagonals];
#pragma unroll
    for (int r = 0; r < kMicro; ++r) row[r] = rows[r * kSide * Size::kStride + x];
#pragma unroll
    for (int n = 0; n < kDiagonals; ++n) diagonal[n] = skewed[n * kSide * Size::kStride + x];
#pragma unroll
    for (int r = 0; r < kMicro; ++r) {
#pragma unroll
      for (int c = 0; c < kMicro; ++c) sums[r][c] += row[r] * diagonal[r - c + kMicro - 1];
    }
  }
}

__device__ inline bool sees(const Attention& a, int64_t batch, int64_t i, int64_t j) {
  if (i >= a.tq || j < 0 || j >= a.tk || (a.causal && j > i)) return false;
  return !a.has_mask || load(a.mask, batch * a.tk + j) > 0;
}

// From dot products to logits; −∞ where a query does not see. key(i, column): which it is.
template <class Size, class Key>
__device__ void finish_logits(const Attention& a, int64_t batch, int64_t i0, Key key,
                              Scores<Size>& scores) {
#pragma unroll
  for (int r = 0; r < Size::kMicro; ++r) {
#pragma unroll
    for (int c = 0; c < Size::kMicro; ++c) {
      int64_t i = i0 + side_y() + kSide * r;
      bool seen = sees(a, batch, i, key(i, side_x() + kSide * c));
      scores[r][c] = seen ? scores[r][c] * a.temperature : -INFINITY;
    }
  }
}

template <class Size>
__device__ void logits(const Attention& a, int64_t batch, int64_t i0, int64_t j0, const float* q,
                       const float* k, const float* relative, Scores<Size>& scores) {
  add_dots<Size>(q, k, a.d, scores);
  if (a.has_relative) add_skewed_dots<Size>(q, relative, a.d, scores);
  finish_logits<Size>(
      a, batch, i0, [&](int64_t, int column) { return j0 + column; }, scores);
}

// Of a row whose largest logit is −∞, nothing.
__device__ inline float exp_below(float logit, float largest) {
  return logit == -INFINITY ? 0 : expf(logit - largest);
}

// The keys that any query of a tile sees.
template <class Size>
__device__ int64_t keys_seen(const Attention& a, int64_t i0) {
  return a.causal ? min(a.tk, i0 + Size::kTile) : a.tk;
}

// A block's rows of results: kMicro rows, kColumns numbers of each, in every thread.
template <class Size>
using Results = float[Size::kMicro][Size::kColumns];

template <class Size>
__device__ void keep_weights(const Scores<Size>& scores, float* weights) {
#pragma unroll
  for (int r = 0; r < Size::kMicro; ++r) {
#pragma unroll
    for (int c = 0; c < Size::kMicro; ++c) {
      int row = side_y() + kSide * r;
      weights[row * Size::kWeightStride + side_x() + kSide * c] = scores[r][c];
    }
  }
}

// results_i += Σ over j of weights[i][j] · rows_j
template <class Size>
__device__ void add_products(const float* weights, const float* rows, Results<Size>& results) {
  weights += side_y() * Size::kWeightStride;
  rows += side_x();
#pragma unroll 2
  for (int j = 0; j < Size::kTile; ++j) {
#pragma unroll
    for (int r = 0; r < Size::kMicro; ++r) {
      float weight = weights[r * kSide * Size::kWeightStride + j];
#pragma unroll
      for (int n = 0; n < Size::kColumns; ++n) {
        results[r][n] += weight * rows[j * Size::kStride + kSide * n];
      }
    }
  }
}

// Rows [first, first + kTile) of one head that are below `limit`.
template <class Size>
__device__ void store_rows(const Attention& a, const View& to, int64_t start, int64_t first,
                           int64_t limit, float factor, const Results<Size>& results) {
#pragma unroll
  for (int r = 0; r < Size::kMicro; ++r) {
    int64_t row = first + side_y() + kSide * r;
#pragma unroll
    for (int n = 0; n < Size::kColumns; ++n) {
      int x = side_x() + kSide * n;
      if (row < limit && x < a.d) store(to, start + row * a.width + x, results[r][n] * factor);
    }
  }
}

}  // namespace sigma1::cuda
