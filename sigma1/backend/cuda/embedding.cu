// Lookups take four numbers at a time. The gradient sorts many picks by the row they name, those of
// a row in their order, so that a block can sum the gradients of its row's picks without atomics.
#include "sigma1/ops/embedding.h"

#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "sigma1/backend/cuda/four.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
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

void run_look_up(const Launch& launch, const Picks& picks) {
  View table = view_of(launch.in(0)), out = view_of(launch.out());
  if (out.count == 0) return;
  bool packs = picks.d % 4 == 0 && input_of(launch.in(0)).packs && input_of(launch.out()).packs;
  auto* kernel = packs ? look_up_fours : look_up;
  kernel<<<blocks_for(packs ? out.count / 4 : out.count), kThreads, 0, stream()>>>(
      picks, table, out, launch.factor());
  check(cudaGetLastError(), "embedding");
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

// The picks before and after sorting. A key is a row of all tables, or behind the last.
struct Sorted {
  uint32_t *keys, *sorted_keys;
  int32_t *order, *sorted_order;
  std::byte* room;
};

int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Sorts, or where `room` is null says in `bytes` how much room that takes. Stable, and the same
// bits always.
void sort_picks(const Sorted& s, void* room, size_t& bytes, int64_t count, int64_t all_rows) {
  int bits = std::bit_width(static_cast<uint64_t>(all_rows));
  check(cub::DeviceRadixSort::SortPairs(room, bytes, s.keys, s.sorted_keys, s.order, s.sorted_order,
                                        static_cast<int>(count), 0, bits, stream()),
        "embedding_grad: sort");
}

size_t sort_bytes(int64_t count, int64_t all_rows) {
  size_t bytes = 0;
  sort_picks({}, nullptr, bytes, count, all_rows);
  return bytes;
}

__global__ void write_keys(Picks picks, uint32_t none, uint32_t* keys, int32_t* order) {
  int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < picks.count; i += stride) {
    int64_t row = picks.row(i);
    keys[i] = row < 0 ? none : static_cast<uint32_t>(row);
    order[i] = static_cast<int32_t>(i);
  }
}

// The first of the sorted keys that is not below `key`.
__device__ int64_t lower_bound(const uint32_t* keys, int64_t count, uint32_t key) {
  int64_t begin = 0, end = count;
  while (begin < end) {
    int64_t middle = (begin + end) / 2;
    if (keys[middle] < key) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

constexpr int kColumns = 32, kParts = 8;  // of a block: a thread sums every kParts-th pick

__global__ void sum_picks(Sorted sorted, int64_t count, View dy, int64_t d, View out,
                          float factor) {
  __shared__ float parts[kParts][kColumns];
  const uint32_t row = blockIdx.x;
  int64_t begin = lower_bound(sorted.sorted_keys, count, row);
  int64_t end = lower_bound(sorted.sorted_keys, count, row + 1);
  for (int64_t first = 0; first < d; first += kColumns) {
    int64_t column = first + threadIdx.x;
    float sum = 0;
    if (column < d) {
      for (int64_t at = begin + threadIdx.y; at < end; at += kParts) {
        sum += load(dy, sorted.sorted_order[at] * d + column);
      }
    }
    __syncthreads();  // the columns before have been added
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= d) continue;
    for (int part = 1; part < kParts; ++part) sum += parts[part][threadIdx.x];
    store(out, int64_t{row} * d + column, sum * factor);
  }
}

int64_t sum_workspace(const Picks& picks, int64_t all_rows) {
  if (picks.count <= kFewPicks) return 0;
  return 4 * rounded(picks.count * 4) +
         rounded(static_cast<int64_t>(sort_bytes(picks.count, all_rows)));
}

void sum_by_row(const Launch& launch, const Picks& picks, int64_t all_rows) {
  if (launch.out().count() == 0) return;
  View from = view_of(launch.in(0)), to = view_of(launch.out());
  if (picks.count <= kFewPicks) {
    return sum_few_picks(picks, from, to, all_rows, launch.factor());
  }
  std::byte* at = launch.workspace.data();
  int64_t each = rounded(picks.count * 4);
  Sorted sorted{reinterpret_cast<uint32_t*>(at), reinterpret_cast<uint32_t*>(at + each),
                reinterpret_cast<int32_t*>(at + 2 * each),
                reinterpret_cast<int32_t*>(at + 3 * each), at + 4 * each};
  write_keys<<<blocks_for(picks.count), kThreads, 0, stream()>>>(
      picks, static_cast<uint32_t>(all_rows), sorted.keys, sorted.order);
  check(cudaGetLastError(), "embedding_grad: keys");
  size_t bytes = launch.workspace.size() - 4 * static_cast<size_t>(each);
  sort_picks(sorted, sorted.room, bytes, picks.count, all_rows);
  sum_picks<<<static_cast<unsigned>(all_rows), dim3(kColumns, kParts), 0, stream()>>>(
      sorted, picks.count, from, picks.d, to, launch.factor());
  check(cudaGetLastError(), "embedding_grad");
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
  return sum_workspace(picks_of(launch), row_count(launch));
}

constexpr Kernel kKernels[] = {
    {&embedding_op, run_embedding},
    {&embedding_grad_op, run_grad<picks_of_table>, grad_workspace<picks_of_table>},
    {&gather_rows_op, run_gather_rows},
    {&gather_rows_grad_op, run_grad<picks_of_each>, grad_workspace<picks_of_each>}};

}  // namespace

std::span<const Kernel> embedding_kernels() { return kKernels; }

}  // namespace sigma1::cuda
