// Lookups take four numbers at a time, large ones eight. Their gradients are sums over the picks of
// a row.
#include "sigma1/ops/embedding.h"

#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/picks.cuh"

namespace sigma1::cuda {
namespace {

__global__ void look_up(Picks picks, View table, View out, float factor) {
  int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < out.count; i += stride) {
    int64_t pick = i / picks.d, row = picks.row(pick);
    store(out, i, row < 0 ? NAN : load(table, row * picks.d + i - pick * picks.d) * factor);
  }
}

// Where four neighbours can be read and written at once.
__global__ void look_up_fours(Picks picks, View table, View out, float factor) {
  int64_t stride = int64_t{blockDim.x} * gridDim.x, fours = picks.d / 4;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < out.count / 4; i += stride) {
    int64_t pick = i / fours, row = picks.row(pick);
    Four numbers{NAN, NAN, NAN, NAN};
    if (row >= 0) numbers = load_four(table, 4 * (row * fours + i - pick * fours));
    for (float& each : numbers.at) each *= factor;
    store_four(out, 4 * i, numbers);
  }
}

// The same with eight, of which a thread has only these: for what is large enough to keep the
// device busy so.
__global__ void look_up_eights(Picks picks, View table, View out, float factor) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, eights = picks.d / 8;
  if (i >= out.count / 8) return;
  const int64_t pick = i / eights, row = picks.row(pick);
  Eight numbers{NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
  if (row >= 0) numbers = load_eight(table, 8 * (row * eights + i - pick * eights));
#pragma unroll
  for (float& each : numbers.at) each *= factor;
  store_eight(out, 8 * i, numbers);
}

void run_look_up(const Launch& launch, const Picks& picks) {
  constexpr int64_t kManyNumbers = 1 << 22;
  View table = view_of(launch.in(0)), out = view_of(launch.out());
  if (out.count == 0) return;
  if (out.count >= kManyNumbers && packs_eight(table, picks.d) && packs_eight(out, picks.d)) {
    auto blocks = static_cast<unsigned>((out.count / 8 + kThreads - 1) / kThreads);
    return launch_kernel("embedding", look_up_eights, {blocks, kThreads}, picks, table, out,
                         launch.factor());
  }
  bool packs = picks.d % 4 == 0 && input_of(launch.in(0)).packs && input_of(launch.out()).packs;
  auto* kernel = packs ? look_up_fours : look_up;
  launch_kernel("embedding", kernel, {blocks_for(packs ? out.count / 4 : out.count), kThreads},
                picks, table, out, launch.factor());
}

void run_embedding(const Launch& launch) {
  const Buffer& ids = launch.in(1);
  const Shape& table = launch.in(0).shape;
  run_look_up(launch, {ids.indices(), ids.count(), table[0], ids.count(), table[1]});
}

void run_gather_rows(const Launch& launch) {
  const Buffer& rows = launch.in(1);
  const Shape& x = launch.in(0).shape;
  run_look_up(launch, {rows.indices(), rows.count(), x[1], rows.shape[1], x[2]});
}

void sum_by_row(const Launch& launch, const Picks& picks, int64_t all_rows) {
  if (launch.out().count() == 0) return;
  View from = view_of(launch.in(0)), to = view_of(launch.out());
  if (picks.count <= kFewPicks) {
    sum_few_picks(picks, from, to, all_rows, launch.factor());
  } else {
    sum_many_picks(picks, from, to, all_rows, launch.factor(), launch.workspace);
  }
}

Picks picks_of_table(const Launch& launch) {
  const Buffer& ids = launch.in(1);
  return {ids.indices(), ids.count(), launch.attr<int64_t>("rows"), ids.count(),
          launch.in(0).shape.back()};
}

Picks picks_of_each(const Launch& launch) {
  const Buffer& rows = launch.in(1);
  return {rows.indices(), rows.count(), launch.attr<int64_t>("rows"), rows.shape[1],
          launch.in(0).shape.back()};
}

// Of all tables.
int64_t row_count(const Launch& launch) {
  const Shape& out = launch.out().shape;
  return element_count(Shape(out.begin(), out.end() - 1));
}

template <Picks (*picks_of)(const Launch&)>
void run_grad(const Launch& launch) {
  sum_by_row(launch, picks_of(launch), row_count(launch));
}

template <Picks (*picks_of)(const Launch&)>
int64_t grad_workspace(const Launch& launch) {
  int64_t picks = picks_of(launch).count;
  return picks <= kFewPicks ? 0 : many_picks_workspace(picks, row_count(launch));
}

constexpr Kernel kKernels[] = {
    {&embedding_op, run_embedding},
    {&embedding_grad_op, run_grad<picks_of_table>, grad_workspace<picks_of_table>},
    {&gather_rows_op, run_gather_rows},
    {&gather_rows_grad_op, run_grad<picks_of_each>, grad_workspace<picks_of_each>}};

}  // namespace

std::span<const Kernel> embedding_kernels() { return kKernels; }

}  // namespace sigma1::cuda
