#include "sigma1/ops/softmax.h"

#include <cmath>
#include <optional>

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/pieces.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/error.h"

namespace sigma1::cpu {
namespace {

void run_softmax(const Launch& launch) {
  const Buffer &in = launch.in(0), &out = launch.out();
  int64_t n = row_length(in);
  auto multiplier = static_cast<float>(launch.attr<double>("multiplier"));
  for_rows(in.count() / n, n, [&](int64_t begin, int64_t end) {
    const VectorKernels& v = vectors();
    float* room = thread_room(static_cast<size_t>(2 * n));
    for (int64_t row = begin; row < end; ++row) {
      const float* x = load(in, row * n, n, room);
      float* y = target(out, row * n, room + n);
      float sum = v.exp_sum(x, y, n, multiplier, multiplier * v.largest(x, n));
      v.scale(y, y, n, launch.factor() / sum);
      store(out, row * n, n, y, launch.random[0]);
    }
  });
}

void run_softmax_grad(const Launch& launch) {
  const Buffer& out = launch.out();
  int64_t n = row_length(out);
  auto multiplier = static_cast<float>(launch.attr<double>("multiplier"));
  for_rows(out.count() / n, n, [&](int64_t begin, int64_t end) {
    const VectorKernels& v = vectors();
    float* room = thread_room(static_cast<size_t>(4 * n));
    for (int64_t row = begin; row < end; ++row) {
      const float* x = load(launch.in(0), row * n, n, room);
      const float* dy = load(launch.in(1), row * n, n, room + n);
      float* e = room + 2 * n;  // not in the output, which may lie where dy does
      float* dx = target(out, row * n, room + 3 * n);
      float sum = v.exp_sum(x, e, n, multiplier, multiplier * v.largest(x, n));
      float mean = v.dot(e, dy, n) / sum;
      v.multiply_shifted(e, dy, dx, n, mean, launch.factor() * multiplier / sum);
      store(out, row * n, n, dx, launch.random[0]);
    }
  });
}

bool takes_mean(const Launch& launch) { return launch.attr<std::string>("reduction") == "mean"; }

int64_t checked_target(const Buffer& targets, int64_t row, int64_t vocabulary) {
  int32_t index = targets.indices()[row];
  if (0 <= index && index < vocabulary) return index;
  throw Error("expected a target within [0, {}), got {}", vocabulary, index);
}

// The rows of a cross-entropy: their losses where `losses` is not null, their gradients where there
// is an output for them, which may lie where the logits do.
struct CrossEntropy {
  const Launch& launch;
  bool weighted;
  double* losses;
  std::optional<size_t> grad_output;
  double dloss = 0;  // of each row, without its weight

  void run() const {
    const Buffer& logits = launch.in(0);
    int64_t n = row_length(logits);
    for_rows(logits.count() / n, n, [&](int64_t begin, int64_t end) {
      float* room = thread_room(static_cast<size_t>(2 * n));
      for (int64_t row = begin; row < end; ++row) run_row(row, n, room);
    });
  }

  void run_row(int64_t row, int64_t n, float* room) const {
    const VectorKernels& v = vectors();
    const float* x = load(launch.in(0), row * n, n, room);
    float* dx = grad_output ? target(launch.out(*grad_output), row * n, room + n) : room + n;
    int64_t hit = checked_target(launch.in(1), row, n);
    float largest = v.largest(x, n);
    double below = static_cast<double>(largest) - x[hit];
    float sum = v.exp_sum(x, dx, n, 1, largest);
    double weight = weighted ? load_one(launch.in(2), row) : 1;
    if (losses) losses[row] = weight * (std::log(static_cast<double>(sum)) + below);
    if (!grad_output) return;
    double drow = weight * dloss;
    v.scale(dx, dx, n, static_cast<float>(drow / sum));
    dx[hit] -= static_cast<float>(drow);
    store(launch.out(*grad_output), row * n, n, dx, launch.random[*grad_output]);
  }
};

int64_t row_count(const Launch& launch) { return launch.in(1).count(); }

int64_t losses_workspace(const Launch& launch) {
  return row_count(launch) * static_cast<int64_t>(sizeof(double));
}

double* losses_of(const Launch& launch) {
  return reinterpret_cast<double*>(launch.workspace.data());
}

// In order, whoever computed them.
void store_sum(const Launch& launch, const double* terms, int64_t count, double divisor) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += terms[i];
  auto loss = static_cast<float>(launch.factor() * (sum / divisor));
  store(launch.out(), 0, 1, &loss, launch.random[0]);
}

double divisor_of(const Launch& launch, int64_t count) {
  return takes_mean(launch) ? static_cast<double>(count) : 1;
}

void run_softmax_xent(const Launch& launch) {
  int64_t rows = row_count(launch);
  CrossEntropy{launch, launch.inputs.size() == 3, losses_of(launch), {}}.run();
  store_sum(launch, losses_of(launch), rows, divisor_of(launch, rows));
}

void run_softmax_xent_grad(const Launch& launch) {
  double dloss = load_one(launch.inputs.back(), 0);
  dloss *= launch.factor() / divisor_of(launch, row_count(launch));
  bool weighted = launch.inputs.size() == 4;
  CrossEntropy{launch, weighted, nullptr, 0, dloss}.run();
}

void run_softmax_xent_with_grad(const Launch& launch) {
  int64_t rows = row_count(launch);
  double divisor = divisor_of(launch, rows);
  bool weighted = launch.inputs.size() == 3;
  CrossEntropy{launch, weighted, losses_of(launch), 1, launch.factor(1) / divisor}.run();
  store_sum(launch, losses_of(launch), rows, divisor);
}

int64_t mse_workspace(const Launch& launch) {
  return tile_count(launch.in(0).count()) * static_cast<int64_t>(sizeof(double));
}

void run_mse(const Launch& launch) {
  int64_t count = launch.in(0).count();
  double* sums = losses_of(launch);
  for_tiles(count, [&](int64_t first, int64_t n) {
    const VectorKernels& v = vectors();
    float room[3][kTile];
    const float* x = load(launch.in(0), first, n, room[0]);
    const float* t = load(launch.in(1), first, n, room[1]);
    v.combine(x, t, room[2], n, 1, -1);
    sums[first / kTile] = v.dot(room[2], room[2], n);
  });
  store_sum(launch, sums, tile_count(count), divisor_of(launch, count));
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

}  // namespace sigma1::cpu
