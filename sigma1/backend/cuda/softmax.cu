// A block computes a row in passes over it, and a thread the same columns in each pass, so that the
// result may lie where an input does. Losses are kept per row or block, and summed in their order
// in double by one block.
#include "sigma1/ops/softmax.h"

#include "sigma1/backend/cuda/cross_entropy.cuh"
#include "sigma1/backend/cuda/held_row.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/reduce.cuh"

namespace sigma1::cuda {
namespace {

// The softmax of elements [first, first + n): e(i) / sum.
struct SoftmaxRow {
  View x;
  int64_t first, n;
  float multiplier;
  float largest = 0, sum = 0;

  __device__ SoftmaxRow(const View& logits, int64_t row, int64_t length, float times)
      : x(logits), first(row * length), n(length), multiplier(times) {
    float most = -INFINITY;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, load(x, first + i));
    largest = block_max(most);
    float part = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) part += e(i);
    sum = block_sum(part);
  }

  __device__ float e(int64_t i) const {
    return expf(fmaf(multiplier, load(x, first + i), -multiplier * largest));
  }
};

__global__ void softmax(View x, View y, int64_t n, float multiplier, float factor) {
  SoftmaxRow row(x, blockIdx.x, n, multiplier);
  float scale = factor / row.sum;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) store(y, row.first + i, row.e(i) * scale);
}

__global__ void softmax_grad(View x, View dy, View dx, int64_t n, float multiplier, float factor) {
  SoftmaxRow row(x, blockIdx.x, n, multiplier);
  float part = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) part += row.e(i) * load(dy, row.first + i);
  float mean = block_sum(part) / row.sum;
  float scale = factor * multiplier / row.sum;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    store(dx, row.first + i, row.e(i) * (load(dy, row.first + i) - mean) * scale);
  }
}

void run_softmax(const Launch& launch) {
  int64_t n = launch.in(0).shape.back(), rows = launch.in(0).count() / n;
  if (rows == 0) return;
  softmax<<<static_cast<unsigned>(rows), row_threads(n), 0, stream()>>>(
      view_of(launch.in(0)), view_of(launch.out()), n,
      static_cast<float>(launch.attr<double>("multiplier")), launch.factor());
  check(cudaGetLastError(), "softmax");
}

void run_softmax_grad(const Launch& launch) {
  int64_t n = launch.in(0).shape.back(), rows = launch.in(0).count() / n;
  if (rows == 0) return;
  softmax_grad<<<static_cast<unsigned>(rows), row_threads(n), 0, stream()>>>(
      view_of(launch.in(0)), view_of(launch.in(1)), view_of(launch.out()), n,
      static_cast<float>(launch.attr<double>("multiplier")), launch.factor());
  check(cudaGetLastError(), "softmax_grad");
}

__global__ void cross_entropy(CrossEntropy a) {
  const int64_t at = blockIdx.x;
  // Its logit has been read when the row's sum is there: the gradient may lie over it.
  Target target(a, at);
  SoftmaxRow row(a.logits, at, a.n, 1);
  target.keep_loss(a, at, row.largest, row.sum);
  if (a.dlogits.data == nullptr) return;
  double drow = target.gradient(a);
  auto scale = static_cast<float>(drow / double{row.sum}), whole = static_cast<float>(drow);
  for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
    float dx = row.e(i) * scale;
    store(a.dlogits, row.first + i, i == target.hit ? dx - whole : dx);
  }
}

// The same with one pass over memory each way.
template <Type kType>
__global__ void __launch_bounds__(1024) cross_entropy_held(const __grid_constant__ CrossEntropy a) {
  const int64_t at = blockIdx.x, first = at * a.n;
  HeldPart<kType> part(a.logits, first, a.n);
  Target target(a, at);
  float largest = block_max(part.most());
  float sum = block_sum(part.exponentiate(largest));
  if (a.dlogits.data != nullptr) {
    double drow = target.gradient(a);
    auto scale = static_cast<float>(drow / double{sum}), whole = static_cast<float>(drow);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      int64_t column = part.column(i);
      if (column >= a.n) break;
      Eight dx = part.of[i];
      for (float& each : dx.at) each *= scale;
      if (column <= target.hit && target.hit < column + 8) {
#pragma unroll
        for (int k = 0; k < 8; ++k) dx.at[k] -= column + k == target.hit ? whole : 0;
      }
      EightCodes<kType>::of(dx, a.dlogits.saturates).write(a.dlogits.data, first + column);
    }
  }
  target.keep_loss(a, at, largest, sum);
}

using CrossEntropyKernel = void (*)(CrossEntropy);

// Null where rows are not held.
CrossEntropyKernel held_kernel(const CrossEntropy& a) {
  Type type = a.logits.type;
  auto fits = [&](const View& view) { return view.type == type && packs_eight(view, a.n); };
  bool both_fit = fits(a.logits) && (a.dlogits.data == nullptr || fits(a.dlogits));
  if (!both_fit || a.logits.scale != nullptr || a.n > kMostHeld) return nullptr;
  switch (type) {
    case Type::fp16:
      return cross_entropy_held<Type::fp16>;
    case Type::bf16:
      return cross_entropy_held<Type::bf16>;
    case Type::fp32:
      return cross_entropy_held<Type::fp32>;
    default:
      return nullptr;
  }
}

__global__ void sum_terms(const double* terms, int64_t count, double divisor, double factor,
                          View to) {
  double part = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) part += terms[i];
  double sum = block_sum(part);
  if (threadIdx.x == 0) store(to, 0, static_cast<float>(factor * (sum / divisor)));
}

double divisor_of(const Launch& launch, int64_t count) {
  return launch.attr<std::string>("reduction") == "mean" ? static_cast<double>(count) : 1;
}

double* terms_of(const Launch& launch) {
  return reinterpret_cast<double*>(launch.workspace.data());
}

void store_sum(const Launch& launch, int64_t terms, double divisor) {
  launch_kernel("sum of losses", sum_terms, {1, 1024}, terms_of(launch), terms, divisor,
                launch.factor(), view_of(launch.out()));
}

int64_t row_count(const Launch& launch) { return launch.in(1).count(); }

int64_t losses_workspace(const Launch& launch) {
  return row_count(launch) * static_cast<int64_t>(sizeof(double));
}

CrossEntropy cross_entropy_of(const Launch& launch, bool weighted) {
  CrossEntropy arguments{};
  arguments.logits = view_of(launch.in(0));
  arguments.targets = view_of(launch.in(1));
  if (weighted) arguments.weights = view_of(launch.in(2));
  arguments.n = launch.in(0).shape.back();
  return arguments;
}

void run_rows(const Launch& launch, const CrossEntropy& arguments) {
  auto rows = static_cast<unsigned>(row_count(launch));
  if (rows == 0 || stream_cross_entropy(arguments, rows)) return;
  if (CrossEntropyKernel held = held_kernel(arguments)) {
    launch_kernel("cross-entropy", held, {rows, held_threads(arguments.n)}, arguments);
  } else {
    cross_entropy<<<rows, row_threads(arguments.n), 0, stream()>>>(arguments);
    check(cudaGetLastError(), "cross-entropy");
  }
}

void run_softmax_xent(const Launch& launch) {
  CrossEntropy arguments = cross_entropy_of(launch, launch.inputs.size() == 3);
  arguments.losses = terms_of(launch);
  run_rows(launch, arguments);
  store_sum(launch, row_count(launch), divisor_of(launch, row_count(launch)));
}

void run_softmax_xent_grad(const Launch& launch) {
  CrossEntropy arguments = cross_entropy_of(launch, launch.inputs.size() == 4);
  arguments.dloss = view_of(launch.inputs.back());
  arguments.dlogits = view_of(launch.out());
  arguments.factor = launch.factor() / divisor_of(launch, row_count(launch));
  run_rows(launch, arguments);
}

void run_softmax_xent_with_grad(const Launch& launch) {
  CrossEntropy arguments = cross_entropy_of(launch, launch.inputs.size() == 3);
  double divisor = divisor_of(launch, row_count(launch));
  arguments.losses = terms_of(launch);
  arguments.dlogits = view_of(launch.out(1));
  arguments.factor = launch.factor(1) / divisor;
  run_rows(launch, arguments);
  store_sum(launch, row_count(launch), divisor);
}

__global__ void square_errors(View x, View target, int64_t count, double* sums) {
  int64_t stride = int64_t{blockDim.x} * gridDim.x;
  double part = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    double difference = load(x, i) - load(target, i);
    part += difference * difference;
  }
  double sum = block_sum(part);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

int64_t mse_workspace(const Launch& launch) {
  return blocks_for(launch.in(0).count()) * static_cast<int64_t>(sizeof(double));
}

void run_mse(const Launch& launch) {
  int64_t count = launch.in(0).count();
  square_errors<<<blocks_for(count), kThreads, 0, stream()>>>(
      view_of(launch.in(0)), view_of(launch.in(1)), count, terms_of(launch));
  check(cudaGetLastError(), "mse");
  store_sum(launch, blocks_for(count), divisor_of(launch, count));
}

bool any_to_first(size_t, size_t output) { return output == 0; }
bool logits_to_grad(size_t input, size_t output) { return input == 0 && output == 0; }
bool logits_to_second(size_t input, size_t output) { return input == 0 && output == 1; }

constexpr Kernel kKernels[] = {
    {&softmax_op, run_softmax, nullptr, any_to_first},
    {&softmax_grad_op, run_softmax_grad, nullptr, any_to_first},
    {&softmax_xent_op, run_softmax_xent, losses_workspace, nullptr},
    {&softmax_xent_grad_op, run_softmax_xent_grad, nullptr, logits_to_grad},
    {&softmax_xent_with_grad_op, run_softmax_xent_with_grad, losses_workspace, logits_to_second},
    {&mse_op, run_mse, mse_workspace, nullptr},
};

}  // namespace

std::span<const Kernel> softmax_kernels() { return kKernels; }

}  // namespace sigma1::cuda
