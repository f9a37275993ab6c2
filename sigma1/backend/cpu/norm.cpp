#include "sigma1/ops/norm.h"

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/pieces.h"
#include "sigma1/backend/cpu/vectors.h"

namespace sigma1::cpu {
namespace {

// Of an input that may be left out.
const float* load_column(const Launch& launch, bool present, size_t input, int64_t n, float* room) {
  return present ? load(launch.in(input), 0, n, room) : nullptr;
}

template <bool centred>
void run_norm(const Launch& launch) {
  int64_t n = row_length(launch.in(0)), rows = launch.in(0).count() / n;
  auto eps = static_cast<float>(launch.attr<double>("eps"));
  for_rows(rows, n, [&](int64_t begin, int64_t end) {
    const VectorKernels& v = vectors();
    float* room = thread_room(static_cast<size_t>(4 * n));
    const float* w = load_column(launch, launch.inputs.size() > 1, 1, n, room);
    const float* c = load_column(launch, launch.inputs.size() > 2, 2, n, room + n);
    for (int64_t row = begin; row < end; ++row) {
      const float* x = load(launch.in(0), row * n, n, room + 2 * n);
      float* y = target(launch.out(), row * n, room + 3 * n);
      v.normalise(x, w, c, y, n, v.norm_row(x, n, eps, centred), launch.factor());
      store(launch.out(), row * n, n, y, launch.random[0]);
    }
  });
}

template <bool centred>
void run_norm_grad(const Launch& launch) {
  int64_t n = row_length(launch.in(0)), rows = launch.in(0).count() / n;
  auto eps = static_cast<float>(launch.attr<double>("eps"));
  for_rows(rows, n, [&](int64_t begin, int64_t end) {
    const VectorKernels& v = vectors();
    float* room = thread_room(static_cast<size_t>(4 * n));
    const float* w = load_column(launch, launch.inputs.size() > 2, 1, n, room);
    for (int64_t row = begin; row < end; ++row) {
      const float* x = load(launch.in(0), row * n, n, room + n);
      const float* dy = load(launch.inputs.back(), row * n, n, room + 2 * n);
      float* dx = target(launch.out(), row * n, room + 3 * n);
      v.norm_grad(x, w, dy, dx, n, v.norm_row(x, n, eps, centred), centred, launch.factor());
      store(launch.out(), row * n, n, dx, launch.random[0]);
    }
  });
}

// Rows whose sums of dw and dc are taken together; the blocks' sums are then added in order.
constexpr int64_t kBlockRows = 64;

int64_t block_count(const Launch& launch) {
  int64_t rows = launch.in(0).count() / row_length(launch.in(0));
  return (rows + kBlockRows - 1) / kBlockRows;
}

int64_t norm_weight_grad_workspace(const Launch& launch) {
  auto columns = static_cast<int64_t>(launch.outputs.size());
  return block_count(launch) * columns * row_length(launch.in(0)) *
         static_cast<int64_t>(sizeof(float));
}

// A block's dw, and dc behind it, into `sums`.
template <bool centred>
void sum_block(const Launch& launch, int64_t begin, int64_t end, float* sums) {
  const VectorKernels& v = vectors();
  int64_t n = row_length(launch.in(0));
  auto eps = static_cast<float>(launch.attr<double>("eps"));
  std::fill_n(sums, static_cast<int64_t>(launch.outputs.size()) * n, 0.f);
  float* dc = launch.outputs.size() > 1 ? sums + n : nullptr;
  float* room = thread_room(static_cast<size_t>(2 * n));
  for (int64_t row = begin; row < end; ++row) {
    const float* x = load(launch.in(0), row * n, n, room);
    const float* dy = load(launch.in(1), row * n, n, room + n);
    v.norm_weight_grad(x, dy, sums, dc, n, v.norm_row(x, n, eps, centred));
  }
}

template <bool centred>
void run_norm_weight_grad(const Launch& launch) {
  int64_t n = row_length(launch.in(0)), rows = launch.in(0).count() / n;
  auto columns = static_cast<int64_t>(launch.outputs.size());
  auto* sums = reinterpret_cast<float*>(launch.workspace.data());
  parallel_for(static_cast<size_t>(rows), kBlockRows, [&](size_t begin, size_t end) {
    auto block = static_cast<int64_t>(begin) / kBlockRows;
    sum_block<centred>(launch, static_cast<int64_t>(begin), static_cast<int64_t>(end),
                       sums + block * columns * n);
  });
  parallel_for(static_cast<size_t>(n), kTile, [&](size_t begin, size_t end) {
    auto first = static_cast<int64_t>(begin), count = static_cast<int64_t>(end) - first;
    for (size_t output = 0; output < launch.outputs.size(); ++output) {
      auto column = static_cast<int64_t>(output);
      float total[kTile] = {};
      for (int64_t block = 0; block < block_count(launch); ++block) {
        vectors().add_scaled(sums + (block * columns + column) * n + first, total, count, 1);
      }
      vectors().scale(total, total, count, launch.factor(output));
      store(launch.out(output), first, count, total, launch.random[output]);
    }
  });
}

bool x_to_y(size_t input, size_t output) { return input == 0 && output == 0; }
// Also where w lay: it has the size of dx only when there is one row.
bool to_dx(size_t, size_t output) { return output == 0; }

constexpr Kernel kKernels[] = {
    {&layer_norm_op, run_norm<true>, nullptr, x_to_y},
    {&rms_norm_op, run_norm<false>, nullptr, x_to_y},
    {&layer_norm_grad_op, run_norm_grad<true>, nullptr, to_dx},
    {&rms_norm_grad_op, run_norm_grad<false>, nullptr, to_dx},
    {&layer_norm_weight_grad_op, run_norm_weight_grad<true>, norm_weight_grad_workspace},
    {&rms_norm_weight_grad_op, run_norm_weight_grad<false>, norm_weight_grad_workspace},
};

}  // namespace

std::span<const Kernel> norm_kernels() { return kKernels; }

}  // namespace sigma1::cpu
