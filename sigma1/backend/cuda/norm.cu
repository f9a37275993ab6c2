// A warp computes a row of up to kWarpRow numbers, a block a longer one, in passes over it: for the
// rows that are not held in registers, as those of narrow and of odd widths.
#include "sigma1/ops/norm.h"

#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/norm.cuh"

namespace sigma1::cuda {
namespace {

// The one that this thread works on.
template <class Team>
__device__ int64_t team_row() {
  return int64_t{blockIdx.x} * Team::rows() + Team::row();
}

template <class Team, bool centred>
__global__ void normalise(NormArguments a) {
  if (team_row<Team>() >= a.rows) return;
  int64_t first = team_row<Team>() * a.n;
  NormRow row = norm_row<Team, centred>(a.x, first, a.n, a.eps);
  for_columns<Team>(a.n, [&](int64_t j) {
    float value = row.xhat(load(a.x, first + j));
    if (a.w.data) value *= load(a.w, j);
    if (a.c.data) value += load(a.c, j);
    store(a.y, first + j, value * a.factor);
  });
}

template <class Team, bool centred>
__global__ void norm_grad(NormArguments a) {
  if (team_row<Team>() >= a.rows) return;
  int64_t first = team_row<Team>() * a.n;
  NormRow row = norm_row<Team, centred>(a.x, first, a.n, a.eps);
  auto xhat = [&](int64_t j) { return row.xhat(load(a.x, first + j)); };
  auto dxhat = [&](int64_t j) {
    return a.w.data ? load(a.dy, first + j) * load(a.w, j) : load(a.dy, first + j);
  };
  auto count = static_cast<float>(a.n);
  float mean = centred ? row_sum<Team>(a.n, dxhat) / count : 0;
  float along = row_sum<Team>(a.n, [&](int64_t j) { return dxhat(j) * xhat(j); }) / count;
  float outer = a.factor * row.inverse_scale;
  // dx may lie where an input does: each column is read before it is written.
  for_columns<Team>(a.n, [&](int64_t j) {
    float dx = outer * (dxhat(j) - mean - xhat(j) * along);
    store(a.y, first + j, dx);
  });
}

using RowKernel = void (*)(NormArguments);

void launch_rows(const char* what, RowKernel of_warps, RowKernel of_blocks,
                 const NormArguments& arguments) {
  if (arguments.n <= kWarpRow) {
    auto blocks = static_cast<unsigned>((arguments.rows + kRowWarps - 1) / kRowWarps);
    launch_kernel(what, of_warps, {blocks, kRowWarps * 32}, arguments);
  } else {
    auto blocks = static_cast<unsigned>(arguments.rows);
    launch_kernel(what, of_blocks, {blocks, row_threads(arguments.n)}, arguments);
  }
}

NormArguments arguments_of(const Launch& launch) {
  int64_t n = launch.in(0).shape.back();
  return {.x = view_of(launch.in(0)),
          .w = View{},
          .c = View{},
          .dy = View{},
          .y = view_of(launch.out()),
          .n = n,
          .rows = launch.in(0).count() / n,
          .eps = static_cast<float>(launch.attr<double>("eps")),
          .factor = launch.factor()};
}

template <bool centred>
void run_norm(const Launch& launch) {
  NormArguments arguments = arguments_of(launch);
  if (launch.inputs.size() > 1) arguments.w = view_of(launch.in(1));
  if (launch.inputs.size() > 2) arguments.c = view_of(launch.in(2));
  if (arguments.rows == 0 || normalise_held_rows(arguments, centred)) return;
  launch_rows("norm", normalise<Warp, centred>, normalise<Block, centred>, arguments);
}

template <bool centred>
void run_norm_grad(const Launch& launch) {
  NormArguments arguments = arguments_of(launch);
  if (launch.inputs.size() > 2) arguments.w = view_of(launch.in(1));
  arguments.dy = view_of(launch.inputs.back());
  if (arguments.rows == 0 || find_held_gradients(arguments, centred)) return;
  launch_rows("norm_grad", norm_grad<Warp, centred>, norm_grad<Block, centred>, arguments);
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

}  // namespace sigma1::cuda
