// A block of 16 keys or distances of one head, whose warps share the queries, a chunk of them at a
// time: the gradients of attention that are summed over queries. See attention_mma.cuh. Private to
// this folder.
#pragma once

#include "sigma1/backend/cuda/attention_grad_mma.cuh"
#include "sigma1/backend/cuda/reduce.cuh"

namespace sigma1::cuda {

template <class Size, bool kOfDistances>
struct ColumnBlock {
  using Element = typename Size::Element;
  static constexpr int kRun = 16;  // queries of a chunk that a warp has
  static constexpr int kChunk = kWarps * kRun;
  static constexpr int kWindow = kChunk + kOwned;  // what 16 rows need skewed of a chunk
  using Skewed = Skew<kRun + kOwned>;
  using Left = LeftRoom<Size>;

  // Rows in shared memory: of queries and their gradients, of windows, and those that are owned.
  static constexpr int kGrads = kChunk, kSkewed = 2 * kChunk;
  static constexpr int kOwnedRow = kSkewed + (kOfDistances ? 2 : 1) * kWindow;
  static constexpr int kRows = kOwnedRow + (kOfDistances ? 1 : 2) * kOwned;
  static constexpr int kRowsFloats = Size::floats(kRows * Size::kStride);
  static constexpr int kFloats = kRowsFloats + kWarps * Skewed::kFloats;
  static_assert(parts_floats<Size>() <= kFloats);

  const Attention& a;
  const Pair& at;
  int first;    // the first key or distance
  int begin_i;  // the first query that may see any
  int part = warp_of_block();
  float* room;

  __device__ ColumnBlock(const Attention& of, const Pair& where, float* shared)
      : a(of),
        at(where),
        first(where.tile * kOwned),
        begin_i(of.causal ? first : 0),
        room(shared) {}

  __device__ Element* row(int n) const {
    return reinterpret_cast<Element*>(room) + n * Size::kStride;
  }
  __device__ float* skew() const { return room + kRowsFloats + part * Skewed::kFloats; }
  __device__ Element* queries() const { return row(part * kRun); }
  __device__ Element* grads() const { return row(kGrads + part * kRun); }

  __device__ void copy_owned() const {
    int64_t keys = at.start(a, a.tk);
    if constexpr (kOfDistances) {
      copy_rows<Size, kThreads>(a, a.relative, at.head * a.d, first, kOwned, a.tk, row(kOwnedRow));
    } else {
      copy_rows<Size, kThreads>(a, a.k, keys, first, kOwned, a.tk, row(kOwnedRow));
      copy_rows<Size, kThreads>(a, a.v, keys, first, kOwned, a.tk, row(kOwnedRow + kOwned));
    }
  }
  // Of queries from i0 on. All warps must be done with the windows of others.
  __device__ void copy_chunk(int i0) const {
    int64_t start = at.start(a, a.tq), keys = at.start(a, a.tk);
    int mine = i0 + part * kRun, skewed = i0 - first - kOwned;
    int window = min(kWindow, static_cast<int>(a.tq) - i0 + kOwned);
    window = (window + kRun - 1) / kRun * kRun;
    if (mine < a.tq) {
      copy_rows<Size, 32>(a, a.q, start, mine, kRun, a.tq, queries());
      copy_rows<Size, 32>(a, a.dy, start, mine, kRun, a.tq, grads());
    }
    if constexpr (kOfDistances) {
      copy_rows<Size, kThreads>(a, a.k, keys, skewed, window, a.tk, row(kSkewed));
      copy_rows<Size, kThreads>(a, a.v, keys, skewed, window, a.tk, row(kSkewed + kWindow));
    } else if (a.has_relative) {
      copy_rows<Size, kThreads>(a, a.relative, at.head * a.d, skewed, window, a.tk, row(kSkewed));
    }
    commit_copies();
  }

  // left_query · skewed_{query − row}, by row; the window is of what the warp's queries need.
  __device__ void add_skewed(const Element* left, int window, Tiles<2>& sums) const {
    Skewed::template keep_dots<Size>(Left{left}, row(window + part * kRun), skew());
    const float* from = skew() + tile_column(0) * (Skewed::kStride + 1) - tile_row(0) + kOwned;
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        sums[t][n] += from[(t * 8 + n % 2) * (Skewed::kStride + 1) - n / 2 * 8];
      }
    }
  }
  // Dot products with queries, by row.
  __device__ void score(Tiles<2>& scores) const {
    add_warp_dots<Size, 2>(Left{row(kOwnedRow)}, queries(), scores);
    if (a.has_relative) add_skewed(queries(), kSkewed, scores);
  }
  // The gradients of probabilities.
  __device__ void score_grads(Tiles<2>& dscores) const {
    if constexpr (kOfDistances) {
      add_skewed(grads(), kSkewed + kWindow, dscores);
    } else {
      add_warp_dots<Size, 2>(Left{row(kOwnedRow + kOwned)}, grads(), dscores);
    }
  }

  // A lane's four queries of a run, columns 2t, 2t + 1, 2t + 8, 2t + 9 of the transposed scores.
  struct Queries {
    float4 rows[4];  // RowGrad

    __device__ Queries(const ColumnBlock& block, const RowGrad* of, int i0) {
      const auto* from = reinterpret_cast<const float4*>(of + block.at.pair * block.a.tq);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        int i = i0 + n / 2 * 8 + tile_column(n);
        rows[n] = __ldg(from + (i < block.a.tq ? i : 0));
      }
    }
  };
  __device__ bool sees(int i, int row) const {
    int j = kOfDistances ? i - row : row;
    if (i >= a.tq || j < 0 || j >= a.tk || (a.causal && j > i)) return false;
    return !a.has_mask || load(a.mask, at.batch * a.tk + j) > 0;
  }
  // Which of the lane's pairs are seen, a bit for each.
  __device__ unsigned seen_pairs(int i0) const {
    int last = i0 + kRun - 1, end = first + kOwned;
    bool all = !a.has_mask && last < a.tq && end <= a.tk;
    if (kOfDistances) {
      all = all && i0 >= end - 1 && last - first < a.tk;
    } else {
      all = all && (!a.causal || i0 >= end - 1);
    }
    if (all) return ~0U;
    unsigned bits = 0;
#pragma unroll 1
    for (int n = 0; n < 8; ++n) {
      bool shows = sees(i0 + n / 4 * 8 + tile_column(n), first + tile_row(n % 4));
      bits |= static_cast<unsigned>(shows) << n;
    }
    return bits;
  }
  // Probabilities times 2^14 take the place of dot products.
  __device__ void softmax(int i0, const Queries& queries, Tiles<2>& scores) const {
    unsigned seen = seen_pairs(i0);
    float scale = a.temperature * kLog2e;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float4 query = queries.rows[n / 4 * 2 + n % 2];
      float& score = scores[n / 4][n % 4];
      float p = fast_exp2(score * scale - query.x) * query.y / kOfWeights;
      score = (seen >> n & 1) != 0 ? p : 0;
    }
  }
  // The gradients of logits times `scale` take the place of those of probabilities.
  __device__ static void softmax_grad(const Queries& queries, float scale, const Tiles<2>& weights,
                                      Tiles<2>& dscores) {
    scale *= kOfWeights;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float4 query = queries.rows[n / 4 * 2 + n % 2];
      float p = weights[n / 4][n % 4], &dscore = dscores[n / 4][n % 4];
      dscore = p == 0 ? 0 : p * (dscore - query.z) * scale;
    }
  }

  // visit(i0) for the warp's queries of each chunk.
  template <class Visit>
  __device__ void for_each_chunk(Visit visit) const {
    for (int i0 = begin_i; i0 < a.tq; i0 += kChunk) {
      if (i0 > begin_i) {
        __syncthreads();
        copy_chunk(i0);
      }
      wait_copies<0>();
      __syncthreads();
      if (i0 + part * kRun < a.tq) visit(i0 + part * kRun);
    }
  }
  // Copies the first chunk meanwhile.
  __device__ Power begin(const RowGrad* rows) const {
    copy_owned();
    if (begin_i < a.tq) copy_chunk(begin_i);
    float bound = 0;
    for (int64_t i = begin_i + static_cast<int>(threadIdx.x); i < a.tq; i += kThreads) {
      bound = fmaxf(bound, rows[at.pair * a.tq + i].bound);
    }
    return Power(block_max(bound));
  }
};

}  // namespace sigma1::cuda
