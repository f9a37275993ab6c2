// A block computes whole rows. In the gradient it takes several rows, one after the other, and sums
// their dw and dc in the workspace, a thread always the same columns; a second kernel adds up what
// the blocks found, in their order.
#include "sigma1/ops/norm.h"

#include <algorithm>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/reduce.cuh"

namespace sigma1::cuda {
namespace {

struct NormRow {
  float mean, inverse_scale;

  __device__ float xhat(float x) const { return (x - mean) * inverse_scale; }
};

// Calls body(column) for the columns of this thread: the same ones in every row.
template <class Body>
__device__ void for_columns(int64_t n, Body body) {
  for (int64_t column = threadIdx.x; column < n; column += blockDim.x) body(column);
}

template <class Term>
__device__ float row_sum(int64_t n, Term term) {
  float sum = 0;
  for_columns(n, [&](int64_t column) { sum += term(column); });
  return block_sum(sum);
}

template <bool centred>
__device__ NormRow norm_row(const View& x, int64_t first, int64_t n, float eps) {
  auto count = static_cast<float>(n);
  float mean = 0;
  if (centred) mean = row_sum(n, [&](int64_t j) { return load(x, first + j); }) / count;
  // Around the mean rather than E[x²] − μ², which loses digits.
  float square = row_sum(n, [&](int64_t j) {
    float difference = load(x, first + j) - mean;
    return difference * difference;
  });
  return {mean, 1 / sqrtf(square / count + eps)};
}

// Without data where an input is left out.
struct NormArguments {
  View x, w, c, y;
  int64_t n;
  float eps, factor;
};

template <bool centred>
__global__ void normalise(NormArguments a) {
  int64_t first = int64_t{blockIdx.x} * a.n;
  NormRow row = norm_row<centred>(a.x, first, a.n, a.eps);
  for_columns(a.n, [&](int64_t j) {
    float value = row.xhat(load(a.x, first + j));
    if (a.w.data) value *= load(a.w, j);
    if (a.c.data) value += load(a.c, j);
    store(a.y, first + j, value * a.factor);
  });
}

template <bool centred>
void run_norm(const Launch& launch) {
  int64_t n = launch.in(0).shape.back(), rows = launch.in(0).count() / n;
  if (rows == 0) return;
  auto optional_input = [&](size_t i) {
    return launch.inputs.size() > i ? view_of(launch.in(i)) : View{};
  };
  NormArguments arguments{.x = view_of(launch.in(0)),
                          .w = optional_input(1),
                          .c = optional_input(2),
                          .y = view_of(launch.out()),
                          .n = n,
                          .eps = static_cast<float>(launch.attr<double>("eps")),
                          .factor = launch.factor()};
  auto blocks = static_cast<unsigned>(rows);
  normalise<centred><<<blocks, row_threads(n), 0, stream()>>>(arguments);
  check(cudaGetLastError(), "norm");
}

// How the rows of a gradient are cut, by their number alone.
struct Cut {
  explicit Cut(const Launch& launch) {
    constexpr int64_t kMostBlocks = 264;  // two of each multiprocessor
    n = launch.in(0).shape.back();
    rows = launch.in(0).count() / n;
    each = std::max<int64_t>(1, (rows + kMostBlocks - 1) / kMostBlocks);
    blocks = (rows + each - 1) / each;
    columns = static_cast<int64_t>(launch.outputs.size()) - 1;
  }
  int64_t n, rows, each, blocks;
  int64_t columns;  // dw and dc, or the first of them, or none
};

struct NormGradArguments {
  View x, w, dy, dx;  // w without data where it is left out
  float* sums;        // [blocks, columns, n]
  int64_t n, rows, each, columns;
  float eps, factor;
};

template <bool centred>
__device__ void norm_grad_row(const NormGradArguments& a, int64_t first, bool is_first, float* dw,
                              float* dc) {
  NormRow row = norm_row<centred>(a.x, first, a.n, a.eps);
  auto xhat = [&](int64_t j) { return row.xhat(load(a.x, first + j)); };
  auto dxhat = [&](int64_t j) {
    return a.w.data ? load(a.dy, first + j) * load(a.w, j) : load(a.dy, first + j);
  };
  auto count = static_cast<float>(a.n);
  float mean = centred ? row_sum(a.n, dxhat) / count : 0;
  float along = row_sum(a.n, [&](int64_t j) { return dxhat(j) * xhat(j); }) / count;
  float outer = a.factor * row.inverse_scale;
  // dx comes last: it may lie where an input does.
  for_columns(a.n, [&](int64_t j) {
    float dy = load(a.dy, first + j), xhat_j = xhat(j);
    float dx = outer * (dxhat(j) - mean - xhat_j * along);
    if (dw) dw[j] = (is_first ? 0 : dw[j]) + dy * xhat_j;
    if (dc) dc[j] = (is_first ? 0 : dc[j]) + dy;
    store(a.dx, first + j, dx);
  });
}

template <bool centred>
__global__ void norm_grad(NormGradArguments a) {
  int64_t begin = int64_t{blockIdx.x} * a.each, end = begin + a.each;
  if (end > a.rows) end = a.rows;
  float* sums = a.sums + int64_t{blockIdx.x} * a.columns * a.n;
  float* dw = a.columns > 0 ? sums : nullptr;
  float* dc = a.columns > 1 ? sums + a.n : nullptr;
  for (int64_t row = begin; row < end; ++row) {
    norm_grad_row<centred>(a, row * a.n, row == begin, dw, dc);
  }
}

constexpr int kColumns = 32, kParts = 8;  // of a block: a thread sums every kParts-th of a column

__global__ void add_blocks(const float* sums, int64_t step, int64_t blocks, int64_t n, View to,
                           float factor) {
  __shared__ float parts[kParts][kColumns];
  int64_t column = int64_t{blockIdx.x} * kColumns + threadIdx.x;
  float sum = 0;
  if (column < n) {
    for (int64_t block = threadIdx.y; block < blocks; block += kParts) {
      sum += sums[block * step + column];
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
  for (int part = 1; part < kParts; ++part) sum += parts[part][threadIdx.x];
  store(to, column, sum * factor);
}

void add_columns(const Launch& launch, const Cut& cut, const float* sums) {
  auto blocks = static_cast<unsigned>((cut.n + kColumns - 1) / kColumns);
  for (int64_t column = 0; column < cut.columns; ++column) {
    auto output = static_cast<size_t>(column) + 1;
    add_blocks<<<blocks, dim3(kColumns, kParts), 0, stream()>>>(
        sums + column * cut.n, cut.columns * cut.n, cut.blocks, cut.n, view_of(launch.out(output)),
        launch.factor(output));
    check(cudaGetLastError(), "norm_grad: columns");
  }
}

int64_t norm_grad_workspace(const Launch& launch) {
  Cut cut(launch);
  return cut.blocks * cut.columns * cut.n * static_cast<int64_t>(sizeof(float));
}

template <bool centred>
void run_norm_grad(const Launch& launch) {
  Cut cut(launch);
  auto* sums = reinterpret_cast<float*>(launch.workspace.data());
  if (cut.rows > 0) {
    NormGradArguments arguments{.x = view_of(launch.in(0)),
                                .w = launch.inputs.size() > 2 ? view_of(launch.in(1)) : View{},
                                .dy = view_of(launch.inputs.back()),
                                .dx = view_of(launch.out()),
                                .sums = sums,
                                .n = cut.n,
                                .rows = cut.rows,
                                .each = cut.each,
                                .columns = cut.columns,
                                .eps = static_cast<float>(launch.attr<double>("eps")),
                                .factor = launch.factor()};
    auto blocks = static_cast<unsigned>(cut.blocks);
    norm_grad<centred><<<blocks, row_threads(cut.n), 0, stream()>>>(arguments);
    check(cudaGetLastError(), "norm_grad");
  }
  add_columns(launch, cut, sums);
}

bool x_to_y(size_t input, size_t output) { return input == 0 && output == 0; }
// Also where w lay: it has the size of dx only when there is one row.
bool to_dx(size_t, size_t output) { return output == 0; }

constexpr Kernel kKernels[] = {
    {&layer_norm_op, run_norm<true>, nullptr, x_to_y},
    {&rms_norm_op, run_norm<false>, nullptr, x_to_y},
    {&layer_norm_grad_op, run_norm_grad<true>, norm_grad_workspace, to_dx},
    {&rms_norm_grad_op, run_norm_grad<false>, norm_grad_workspace, to_dx},
};

}  // namespace

std::span<const Kernel> norm_kernels() { return kKernels; }

}  // namespace sigma1::cuda
