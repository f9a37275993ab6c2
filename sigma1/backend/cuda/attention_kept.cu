// Attention that keeps logarithms and its result, and its gradient from them. Tall tiles keep as
// they go (attention_tall.cu), and have a gradient of their own (attention_tall_kept.cu); for all
// else attention is computed as ever, what is kept in launches of its own, and the gradient in
// fp32.
#include "sigma1/backend/cuda/attention_kept.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/attention_mma.cuh"
#include "sigma1/backend/cuda/attention_parts.cuh"
#include "sigma1/backend/cuda/attention_tall_kept.cuh"
#include "sigma1/backend/cuda/attention_widened.cuh"
#include "sigma1/backend/cuda/product.cuh"
#include "sigma1/backend/node_call.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/attention.h"

namespace sigma1::cuda {
namespace {

// A row's softmax so far, by tiles of keys.
struct RunningSum {
  float largest = -INFINITY, sum = 0;

  template <int kCount>
  __device__ void add(const float (&scores)[kCount]) {
    float most = largest, total = 0;
    for (float score : scores) most = fmaxf(most, score);
    most = row_max(most);
    for (float score : scores) total += exp_below(score, most);
    sum = sum * exp_below(largest, most) + row_sum(total);
    largest = most;
  }
  // 0 where nothing is seen.
  __device__ float log() const { return sum == 0 ? 0 : largest + logf(sum); }
};

template <class Size>
__global__ void __launch_bounds__(kThreads, 1) sum_logs(Attention a, View logs, float factor) {
  extern __shared__ float shared[];
  float *q = shared, *k = q + Size::kRowsRoom;
  Pair at(a);
  int64_t i0 = at.tile * Size::kTile;
  RunningSum sums[Size::kMicro];
  load_rows<Size>(a, a.q, at.start(a, a.tq), i0, Size::kTile, a.tq, q);
  for (int64_t j0 = 0; j0 < keys_seen<Size>(a, i0); j0 += Size::kTile) {
    __syncthreads();
    load_rows<Size>(a, a.k, at.start(a, a.tk), j0, Size::kTile, a.tk, k);
    __syncthreads();
    Scores<Size> scores = {};
    logits<Size>(a, at.batch, i0, j0, q, k, nullptr, scores);
#pragma unroll
    for (int r = 0; r < Size::kMicro; ++r) sums[r].add(scores[r]);
  }
#pragma unroll
  for (int r = 0; r < Size::kMicro; ++r) {
    int64_t i = i0 + side_y() + kSide * r;
    if (side_x() == 0 && i < a.tq) store(logs, at.pair * a.tq + i, sums[r].log() * factor);
  }
}

// The sums of rows as gradients in fp32 want them; a warp for each.
__global__ void find_row_sums(Attention a, KeptInputs kept, RowSums* rows) {
  int64_t row = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;  // of logs
  if (row >= a.batch * a.heads * a.tq) return;
  int64_t pair = row / a.tq, query = pair / a.heads * a.tq + row % a.tq;
  int64_t first = query * a.width + pair % a.heads * a.d;
  float mean = 0;
  for (int x = static_cast<int>(threadIdx.x) % 32; x < a.d; x += 32) {
    mean += load(a.dy, first + x) * load(kept.result, first + x);
  }
  for (int lane = 16; lane > 0; lane /= 2) mean += __shfl_xor_sync(~0U, mean, lane);
  if (threadIdx.x % 32 == 0) rows[row] = {load(kept.logs, row), 1, mean * kept.scale};
}

Launch with_output(const Launch& launch, size_t output) {
  Launch result = launch;
  result.outputs = launch.outputs.subspan(output, 1);
  result.factors = launch.factors.subspan(output, 1);
  return result;
}

}  // namespace

KeptInputs::KeptInputs(const Launch& launch)
    : result(view_of(launch.inputs[launch.inputs.size() - 2])),
      logs(view_of(launch.inputs.back())),
      scale(static_cast<float>(1 / launch.attr<double>(kResultFactor))) {}

Launch without_kept(const Launch& launch) {
  Launch result = launch;
  result.inputs = launch.inputs.first(launch.inputs.size() - 2);
  return result;
}

bool is_tall_kept_grad(const Launch& launch) {
  return uses_tensor_cores(Attention(launch)) && uses_tall_kept(launch);
}

// Heads are to keep all multiprocessors busy, and to be too long for one that has room for all.
bool keeps_attention(const Graph& graph, int node) {
  constexpr int64_t kFewestHeads = 100;
  NodeCall call(graph, node);
  const Launch given = call.launch();
  WidenedInputs widened(given);
  const Launch launch = widened.launch();
  Attention a(launch);
  return a.pairs() >= kFewestHeads && is_tall_kept_grad(launch) && !uses_whole(a);
}

void run_attention_kept(const Launch& given) {
  WidenedInputs widened(given);
  const Launch launch = widened.launch();
  Attention a(launch);
  if (uses_tensor_cores(a) && uses_tall(a)) {
    widened.widen();
    return run_attention_tall(launch);
  }
  for (size_t output = 0; output < given.outputs.size(); output += 2) {
    run_attention(with_output(given, output));
  }
  Attention plain(given);
  with_tile_size(plain, [&]<class Size>(Size) {
    launch_tiles(sum_logs<Size>, plain.pairs() * ceil_div(plain.tq, Size::kTile),
                 2 * Size::kRowsRoom, plain, view_of(given.out(1)), given.factor(1));
  });
}

int64_t attention_kept_grad_workspace(const Launch& given) {
  const Launch without = without_kept(given);
  WidenedInputs widened(without);
  // Whether tensor cores will be used is known when there is data.
  int64_t in_fp32 = row_sums_bytes(Attention(given));
  return std::max(in_fp32, widened.bytes() + tall_kept_workspace(widened.launch()));
}

void run_attention_kept_grad(const Launch& given) {
  const Launch without = without_kept(given);
  WidenedInputs widened(without);
  const Launch launch = widened.launch();
  if (is_tall_kept_grad(launch)) {
    widened.widen();
    return run_tall_kept_grad(launch, KeptInputs(given));
  }
  Attention a(given);
  auto* rows = reinterpret_cast<RowSums*>(given.workspace.data());
  launch_kernel("attention", find_row_sums,
                {static_cast<unsigned>(ceil_div(a.pairs() * a.tq, kThreads / 32)), kThreads}, a,
                KeptInputs(given), rows);
  run_plain_grads(given, a, rows);
}

bool gives_codes(const Launch& given) {
  const Launch without = without_kept(given);
  WidenedInputs widened(without);
  const Launch launch = widened.launch();
  return is_tall_kept_grad(launch) && gives_kept_codes(launch);
}

void run_attention_kept_codes(const Launch& given, const KeptCodes& codes) {
  if (!gives_codes(given)) throw Bug("cuda: gradients of attention that are no codes");
  const Launch without = without_kept(given);
  WidenedInputs widened(without);
  widened.widen();
  run_tall_kept_codes(widened.launch(), KeptInputs(given), codes);
}

}  // namespace sigma1::cuda
