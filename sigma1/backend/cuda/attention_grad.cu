// The gradients of attention, without a matrix of scores in memory and without atomics: scores are
// computed anew wherever something is summed. A first pass keeps three numbers of each row's
// softmax; then each block owns what it sums: a tile of queries, of keys and values, or, one sample
// at a time, of distances.
#include "sigma1/backend/cuda/attention_grad_mma.cuh"
#include "sigma1/backend/cuda/attention_group_grad.cuh"
#include "sigma1/backend/cuda/attention_tall.cuh"
#include "sigma1/backend/cuda/attention_widened.cuh"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {
namespace {

template <class Size>
__device__ int64_t tile_start(const Pair& at) {
  return at.tile * Size::kTile;
}

// One row's softmax so far, and the gradients of its weights, by tiles of keys.
struct Running {
  float largest = -INFINITY, sum = 0, weighted = 0;

  template <int kCount>
  __device__ void add(const float (&scores)[kCount], const float (&dweights)[kCount]) {
    float most = largest, total = 0, total_weighted = 0;
    for (float score : scores) most = fmaxf(most, score);
    most = row_max(most);
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      float weight = exp_below(scores[c], most);
      total += weight;
      total_weighted += weight == 0 ? 0 : weight * dweights[c];
    }
    float shrink = exp_below(largest, most);
    sum = sum * shrink + row_sum(total);
    weighted = weighted * shrink + row_sum(total_weighted);
    largest = most;
  }
  __device__ RowSums result() const {
    float inverse = sum == 0 ? 0 : 1 / sum;
    return {largest, inverse, weighted * inverse};
  }
};

// Logits give way to probabilities, the gradients of those to the gradients of the logits.
template <class Size>
__device__ void softmax_grad(const Attention& a, const Pair& at, const RowSums* rows, int64_t i0,
                             Scores<Size>& scores, Scores<Size>& dscores) {
#pragma unroll
  for (int r = 0; r < Size::kMicro; ++r) {
    int64_t i = i0 + side_y() + kSide * r;
    RowSums row = i < a.tq ? rows[at.pair * a.tq + i] : RowSums{};
#pragma unroll
    for (int c = 0; c < Size::kMicro; ++c) {
      bool seen = scores[r][c] != -INFINITY;
      float p = exp_below(scores[r][c], row.largest) * row.inverse_sum;
      scores[r][c] = p;
      dscores[r][c] = seen ? p * (dscores[r][c] - row.mean) : 0;
    }
  }
}

// results_i += Σ over j of weights[i][j] · skewed_{i−j}
template <class Size>
__device__ void add_skewed_products(const float* weights, const float* skewed,
                                    Results<Size>& results) {
  weights += side_y() * Size::kWeightStride;
  skewed += (side_y() + Size::kTile - 1) * Size::kStride + side_x();
  for (int j = 0; j < Size::kTile; ++j) {
#pragma unroll
    for (int r = 0; r < Size::kMicro; ++r) {
      float weight = weights[r * kSide * Size::kWeightStride + j];
#pragma unroll
      for (int n = 0; n < Size::kColumns; ++n) {
        results[r][n] += weight * skewed[(r * kSide - j) * Size::kStride + kSide * n];
      }
    }
  }
}

// results_j += Σ over i of weights[i][j] · rows_i
template <class Size>
__device__ void add_transposed_products(const float* weights, const float* rows,
                                        Results<Size>& results) {
  weights += side_y();
  rows += side_x();
#pragma unroll 2
  for (int i = 0; i < Size::kTile; ++i) {
#pragma unroll
    for (int r = 0; r < Size::kMicro; ++r) {
      float weight = weights[i * Size::kWeightStride + kSide * r];
#pragma unroll
      for (int n = 0; n < Size::kColumns; ++n) {
        results[r][n] += weight * rows[i * Size::kStride + kSide * n];
      }
    }
  }
}

// Tiles of all inputs, as the passes over queries and keys have them in shared memory.
template <class Size>
struct Rooms {
  float *q, *dy, *k, *v, *relative, *weights;

  static constexpr int floats(bool has_relative, int weights) {
    return 4 * Size::kRowsRoom + (has_relative ? Size::kSkewedRoom : 0) +
           weights * Size::kWeightsRoom;
  }
  __device__ Rooms(const Attention& a, float* shared)
      : q(shared),
        dy(q + Size::kRowsRoom),
        k(dy + Size::kRowsRoom),
        v(k + Size::kRowsRoom),
        relative(v + Size::kRowsRoom),
        weights(relative + (a.has_relative ? Size::kSkewedRoom : 0)) {}

  __device__ void load_queries(const Attention& a, const Pair& at, int64_t i0) {
    load_rows<Size>(a, a.q, at.start(a, a.tq), i0, Size::kTile, a.tq, q);
    load_rows<Size>(a, a.dy, at.start(a, a.tq), i0, Size::kTile, a.tq, dy);
  }
  __device__ void load_keys(const Attention& a, const Pair& at, int64_t j0) {
    load_rows<Size>(a, a.k, at.start(a, a.tk), j0, Size::kTile, a.tk, k);
    load_rows<Size>(a, a.v, at.start(a, a.tk), j0, Size::kTile, a.tk, v);
  }
  __device__ void load_distances(const Attention& a, const Pair& at, int64_t i0, int64_t j0) {
    if (a.has_relative) load_skewed<Size>(a, a.relative, at.head * a.d, i0, j0, relative);
  }
  // Logits, and the gradients of the weights: dy·v.
  __device__ void score(const Attention& a, const Pair& at, int64_t i0, int64_t j0,
                        Scores<Size>& scores, Scores<Size>& dscores) const {
    logits<Size>(a, at.batch, i0, j0, q, k, relative, scores);
    add_dots<Size>(dy, v, a.d, dscores);
  }
};

template <class Size>
__global__ void __launch_bounds__(kThreads, 1) sum_rows(Attention a, RowSums* rows) {
  extern __shared__ float shared[];
  Rooms<Size> rooms(a, shared);
  Pair at(a);
  int64_t i0 = tile_start<Size>(at);
  Running running[Size::kMicro];
  rooms.load_queries(a, at, i0);
  for (int64_t j0 = 0; j0 < keys_seen<Size>(a, i0); j0 += Size::kTile) {
    __syncthreads();
    rooms.load_keys(a, at, j0);
    rooms.load_distances(a, at, i0, j0);
    __syncthreads();
    Scores<Size> scores = {}, dscores = {};
    rooms.score(a, at, i0, j0, scores, dscores);
#pragma unroll
    for (int r = 0; r < Size::kMicro; ++r) running[r].add(scores[r], dscores[r]);
  }
#pragma unroll
  for (int r = 0; r < Size::kMicro; ++r) {
    int64_t i = i0 + side_y() + kSide * r;
    if (side_x() == 0 && i < a.tq) rows[at.pair * a.tq + i] = running[r].result();
  }
}

template <class Size>
__global__ void __launch_bounds__(kThreads, 1)
    grad_queries(Attention a, const RowSums* rows, View dq, float factor) {
  extern __shared__ float shared[];
  Rooms<Size> rooms(a, shared);
  Pair at(a);
  int64_t i0 = tile_start<Size>(at);
  Results<Size> results = {};
  rooms.load_queries(a, at, i0);
  for (int64_t j0 = 0; j0 < keys_seen<Size>(a, i0); j0 += Size::kTile) {
    __syncthreads();
    rooms.load_keys(a, at, j0);
    rooms.load_distances(a, at, i0, j0);
    __syncthreads();
    Scores<Size> scores = {}, dscores = {};
    rooms.score(a, at, i0, j0, scores, dscores);
    softmax_grad<Size>(a, at, rows, i0, scores, dscores);
    keep_weights<Size>(dscores, rooms.weights);
    __syncthreads();
    add_products<Size>(rooms.weights, rooms.k, results);
    if (a.has_relative) add_skewed_products<Size>(rooms.weights, rooms.relative, results);
  }
  store_rows<Size>(a, dq, at.start(a, a.tq), i0, a.tq, factor, results);
}

template <class Size>
__global__ void __launch_bounds__(kThreads, 1)
    grad_keys(Attention a, const RowSums* rows, View dk, View dv, float dk_factor,
              float dv_factor) {
  extern __shared__ float shared[];
  Rooms<Size> rooms(a, shared);
  float* dweights = rooms.weights + Size::kWeightsRoom;
  Pair at(a);
  int64_t j0 = tile_start<Size>(at);
  Results<Size> of_keys = {}, of_values = {};
  rooms.load_keys(a, at, j0);
  for (int64_t i0 = a.causal ? j0 : 0; i0 < a.tq; i0 += Size::kTile) {
    __syncthreads();
    rooms.load_queries(a, at, i0);
    rooms.load_distances(a, at, i0, j0);
    __syncthreads();
    Scores<Size> scores = {}, dscores = {};
    rooms.score(a, at, i0, j0, scores, dscores);
    softmax_grad<Size>(a, at, rows, i0, scores, dscores);
    keep_weights<Size>(scores, rooms.weights);
    keep_weights<Size>(dscores, dweights);
    __syncthreads();
    add_transposed_products<Size>(rooms.weights, rooms.dy, of_values);
    add_transposed_products<Size>(dweights, rooms.q, of_keys);
  }
  store_rows<Size>(a, dk, at.start(a, a.tk), j0, a.tk, dk_factor, of_keys);
  store_rows<Size>(a, dv, at.start(a, a.tk), j0, a.tk, dv_factor, of_values);
}

template <class Size>
constexpr int distance_floats() {
  return 3 * Size::kRowsRoom + Size::kSkewedRoom + Size::kWeightsRoom;
}

// Columns of the scores are distances here. Keys and values, which both lie skewed, take turns in
// one room.
template <class Size>
__global__ void __launch_bounds__(kThreads, 1)
    grad_distances(Attention a, const RowSums* rows, View sums) {
  extern __shared__ float shared[];
  float *q = shared, *dy = q + Size::kRowsRoom, *relative = dy + Size::kRowsRoom;
  float *skewed = relative + Size::kRowsRoom, *weights = skewed + Size::kSkewedRoom;
  Pair at(a);
  int64_t first = tile_start<Size>(at);
  int64_t queries = at.start(a, a.tq), keys = at.start(a, a.tk);
  Results<Size> results = {};
  load_rows<Size>(a, a.relative, at.head * a.d, first, Size::kTile, a.tk, relative);
  for (int64_t i0 = first; i0 < a.tq; i0 += Size::kTile) {
    __syncthreads();
    load_rows<Size>(a, a.q, queries, i0, Size::kTile, a.tq, q);
    load_rows<Size>(a, a.dy, queries, i0, Size::kTile, a.tq, dy);
    load_skewed<Size>(a, a.k, keys, i0, first, skewed);
    __syncthreads();
    Scores<Size> scores = {}, dscores = {};
    add_skewed_dots<Size>(q, skewed, a.d, scores);
    add_dots<Size>(q, relative, a.d, scores);
    auto key = [&](int64_t i, int column) { return i - (first + column); };
    finish_logits<Size>(a, at.batch, i0, key, scores);
    __syncthreads();
    load_skewed<Size>(a, a.v, keys, i0, first, skewed);
    __syncthreads();
    add_skewed_dots<Size>(dy, skewed, a.d, dscores);
    softmax_grad<Size>(a, at, rows, i0, scores, dscores);
    keep_weights<Size>(dscores, weights);
    __syncthreads();
    add_transposed_products<Size>(weights, q, results);
  }
  store_rows<Size>(a, sums, at.start(a, a.tk), first, a.tk, 1, results);
}

}  // namespace

int64_t row_sums_bytes(const Attention& a) {
  constexpr int64_t kAlignment = 64;
  return ceil_div(a.pairs() * a.tq * static_cast<int64_t>(sizeof(RowSums)), kAlignment) *
         kAlignment;
}

void run_plain_grads(const Launch& launch, const Attention& a, const RowSums* rows) {
  with_tile_size(a, [&]<class Size>(Size) {
    int64_t query_tiles = a.pairs() * ceil_div(a.tq, Size::kTile);
    int64_t key_tiles = a.pairs() * ceil_div(a.tk, Size::kTile);
    auto floats = [&](int weights) { return Rooms<Size>::floats(a.has_relative, weights); };
    launch_tiles(grad_queries<Size>, query_tiles, floats(1), a, rows, view_of(launch.out(0)),
                 a.temperature * launch.factor(0));
    launch_tiles(grad_keys<Size>, key_tiles, floats(2), a, rows, view_of(launch.out(1)),
                 view_of(launch.out(2)), a.temperature * launch.factor(1), launch.factor(2));
  });
}

// What is summed over samples: an array by distance of each.
int64_t attention_grad_workspace(const Launch& given) {
  WidenedInputs widened(given);
  Attention a(widened.launch());
  int64_t sums = a.has_relative ? a.batch * a.tk * a.width : 0;
  // Whether tensor cores will be used is known when there is data.
  int64_t in_fp32 = row_sums_bytes(a) + sums * static_cast<int64_t>(sizeof(float));
  return widened.bytes() + std::max({in_fp32, GradRooms(a, nullptr).bytes, tall_grad_workspace(a),
                                     group_grad_workspace(a)});
}

int64_t attention_grad_state(const Launch& given) {
  return group_grad_state(Attention(WidenedInputs(given).launch()));
}

void run_attention_grad(const Launch& given) {
  WidenedInputs widened(given);
  widened.widen();
  const Launch launch = widened.launch();
  Attention a(launch);
  bool has_mma = GradRooms(a, nullptr).kept.columns > 0 || has_column_grads(a);
  if (uses_tensor_cores(a) && has_mma) return run_attention_grad_mma(launch);
  auto* rows = reinterpret_cast<RowSums*>(launch.workspace.data());
  auto* sums = reinterpret_cast<float*>(launch.workspace.data() + row_sums_bytes(a));
  View by_sample = fp32_view(sums, a.batch * a.tk * a.width);
  with_tile_size(a, [&]<class Size>(Size) {
    launch_tiles(sum_rows<Size>, a.pairs() * ceil_div(a.tq, Size::kTile),
                 Rooms<Size>::floats(a.has_relative, 0), a, rows);
  });
  run_plain_grads(launch, a, rows);
  if (!a.has_relative) return;
  with_tile_size(a, [&]<class Size>(Size) {
    launch_tiles(grad_distances<Size>, a.pairs() * ceil_div(a.tk, Size::kTile),
                 distance_floats<Size>(), a, rows, by_sample);
  });
  store_sums(sums, a.batch, a.tk * a.width, view_of(launch.out(3)),
             a.temperature * launch.factor(3));
}

}  // namespace sigma1::cuda
