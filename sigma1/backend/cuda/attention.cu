// Attention without a matrix of scores in memory: a block has a tile of one head's queries and goes
// through the keys tile by tile, with the softmax's largest logit and sum so far; what it has
// gathered shrinks whenever a larger logit comes.
#include "sigma1/ops/attention.h"

#include <cmath>

#include "sigma1/backend/cuda/attention_kept.cuh"
#include "sigma1/backend/cuda/attention_mma.cuh"
#include "sigma1/backend/cuda/attention_parts.cuh"
#include "sigma1/backend/cuda/attention_tall.cuh"
#include "sigma1/backend/cuda/attention_widened.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/product.cuh"
#include "sigma1/backend/node_call.h"

namespace sigma1::cuda {
namespace {

// Logits give way to weights e^(logit − largest); what was summed before shrinks.
template <class Size>
__device__ void advance_softmax(Scores<Size>& scores, float (&largest)[Size::kMicro],
                                float (&sum)[Size::kMicro], Results<Size>& results) {
#pragma unroll
  for (int r = 0; r < Size::kMicro; ++r) {
    float most = largest[r], total = 0;
#pragma unroll
    for (int c = 0; c < Size::kMicro; ++c) most = fmaxf(most, scores[r][c]);
    most = row_max(most);
#pragma unroll
    for (int c = 0; c < Size::kMicro; ++c) {
      scores[r][c] = exp_below(scores[r][c], most);
      total += scores[r][c];
    }
    float shrink = exp_below(largest[r], most);
    sum[r] = sum[r] * shrink + row_sum(total);
#pragma unroll
    for (int n = 0; n < Size::kColumns; ++n) results[r][n] *= shrink;
    largest[r] = most;
  }
}

template <class Size>
constexpr int room_floats(bool has_relative) {
  return 3 * Size::kRowsRoom + Size::kWeightsRoom + (has_relative ? Size::kSkewedRoom : 0);
}

template <class Size>
__global__ void __launch_bounds__(kThreads, 1) attend(Attention a, View y, float factor) {
  extern __shared__ float shared[];
  float *q = shared, *k = q + Size::kRowsRoom, *v = k + Size::kRowsRoom;
  float *weights = v + Size::kRowsRoom, *relative = weights + Size::kWeightsRoom;
  Pair at(a);
  // The last tiles see the most keys; first, so that no block is left with them at the end.
  int64_t i0 = ((a.tq + Size::kTile - 1) / Size::kTile - 1 - at.tile) * Size::kTile;
  int64_t queries = at.start(a, a.tq), keys = at.start(a, a.tk);
  float largest[Size::kMicro], sum[Size::kMicro] = {};
  for (float& most : largest) most = -INFINITY;
  Results<Size> results = {};
  load_rows<Size>(a, a.q, queries, i0, Size::kTile, a.tq, q);
  for (int64_t j0 = 0; j0 < keys_seen<Size>(a, i0); j0 += Size::kTile) {
    __syncthreads();
    load_rows<Size>(a, a.k, keys, j0, Size::kTile, a.tk, k);
    load_rows<Size>(a, a.v, keys, j0, Size::kTile, a.tk, v);
    if (a.has_relative) load_skewed<Size>(a, a.relative, at.head * a.d, i0, j0, relative);
    __syncthreads();
    Scores<Size> scores = {};
    logits<Size>(a, at.batch, i0, j0, q, k, relative, scores);
    advance_softmax<Size>(scores, largest, sum, results);
    keep_weights<Size>(scores, weights);
    __syncthreads();
    add_products<Size>(weights, v, results);
  }
#pragma unroll
  for (int r = 0; r < Size::kMicro; ++r) {
    float inverse = sum[r] == 0 ? 0 : 1 / sum[r];
#pragma unroll
    for (int n = 0; n < Size::kColumns; ++n) results[r][n] = results[r][n] * factor * inverse;
  }
  store_rows<Size>(a, y, queries, i0, a.tq, 1, results);
}

}  // namespace

void run_attention(const Launch& given) {
  WidenedInputs widened(given);
  widened.widen();
  const Launch launch = widened.launch();
  Attention a(launch);
  if (uses_tensor_cores(a)) return run_attention_mma(launch);
  with_tile_size(a, [&]<class Size>(Size) {
    launch_tiles(attend<Size>, a.pairs() * ceil_div(a.tq, Size::kTile),
                 room_floats<Size>(a.has_relative), a, view_of(launch.out()), launch.factor());
  });
}

int64_t attention_workspace(const Launch& launch) { return WidenedInputs(launch).bytes(); }

namespace {

bool is_tall(const Graph& graph, int node) {
  const OpDef* op = graph.node(node).op;
  bool is_kept_grad = op == &attention_kept_grad_op;
  bool is_other = op == &attention_op || op == &attention_grad_op || op == &attention_kept_op;
  if (!is_kept_grad && !is_other) return false;
  NodeCall call(graph, node);
  if (is_kept_grad) return is_tall_kept_grad(without_kept(call.launch()));
  Attention a(call.launch());
  return uses_tensor_cores(a) && uses_tall(a);
}

constexpr Kernel kKernels[] = {
    {&attention_op, run_attention, attention_workspace},
    {.op = &attention_grad_op,
     .run = run_attention_grad,
     .workspace = attention_grad_workspace,
     .state = attention_grad_state},
    {&attention_kept_op, run_attention_kept, attention_workspace},
    {&attention_kept_grad_op, run_attention_kept_grad, attention_kept_grad_workspace},
};

}  // namespace

Attention::Attention(const Launch& launch)
    : q(view_of(launch.in(0))),
      k(view_of(launch.in(1))),
      v(view_of(launch.in(2))),
      batch(launch.in(0).shape[0]),
      tq(launch.in(0).shape[1]),
      tk(launch.in(1).shape[1]),
      width(launch.in(0).shape[2]),
      pitch(launch.in(0).pitch > 0 ? launch.in(0).pitch : width),
      heads(static_cast<int>(launch.attr<int64_t>("heads"))),
      d(static_cast<int>(width / heads)),
      causal(launch.attr<bool>("causal")),
      has_relative(launch.attr<bool>("has_relative")),
      has_mask(launch.attr<bool>("has_mask")),
      temperature(static_cast<float>(launch.attr<double>("multiplier") /
                                     std::sqrt(static_cast<double>(d)))) {
  constexpr int kLargestHead = 256;
  if (d > kLargestHead) {
    throw Error("cuda: attention: expected at most {} numbers a head, got {}", kLargestHead, d);
  }
  size_t next = 3;
  if (has_relative) relative = view_of(launch.in(next++));
  if (has_mask) mask = view_of(launch.in(next++));
  if (next < launch.inputs.size()) dy = view_of(launch.in(next));
}

bool attention_takes_parts(const Graph& graph, int node, size_t input) {
  // q, k and v are all parts of one tensor, or none is.
  const std::vector<Value>& inputs = graph.node(node).inputs;
  if (input > 2 || !is_tall(graph, node)) return false;
  return inputs[0].node == inputs[1].node && inputs[1].node == inputs[2].node;
}

bool attention_gives_parts(const Graph& graph, int node) {
  const OpDef* op = graph.node(node).op;
  return (op == &attention_grad_op || op == &attention_kept_grad_op) && is_tall(graph, node);
}

std::span<const Kernel> attention_kernels() { return kKernels; }

}  // namespace sigma1::cuda
