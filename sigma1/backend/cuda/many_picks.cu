// Sums over picks of the same row, of many picks: they are sorted by the row they name, those of a
// row in their order. A warp then has a few rows, and a block one that many pick, so that the table
// is written once and what was picked is read once.
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/backend/cuda/picks.cuh"

namespace sigma1::cuda {
namespace {

constexpr int kFewOfRow = 16;  // a warp sums no more

// In the workspace.
struct Sorted {
  uint32_t *keys, *sorted_keys;  // a row of all tables, or behind the last
  int32_t *order, *sorted_order;
  int32_t* begins;   // [all_rows + 1], where a row's picks begin
  int32_t* crowded;  // rows of many picks, in any order
  int32_t* crowds;   // how many they are
  std::byte* room;
  int64_t bytes;  // up to the room's begin

  Sorted(std::byte* at, int64_t count, int64_t all_rows) : bytes(0) {
    auto take = [&]<class T>(T*& part, int64_t size) {
      part = reinterpret_cast<T*>(at + bytes);
      bytes += (size * int64_t{sizeof(T)} + 255) / 256 * 256;
    };
    take(keys, count), take(sorted_keys, count);
    take(order, count), take(sorted_order, count);
    take(begins, all_rows + 1);
    take(crowded, count / kFewOfRow), take(crowds, 1);
    room = at + bytes;
  }
};

// Sorts, or where `room` is null says in `bytes` how much room that takes. Stable, and the same
// bits always.
void sort_picks(const Sorted& s, void* room, size_t& bytes, int64_t count, int64_t all_rows) {
  int bits = std::bit_width(static_cast<uint64_t>(all_rows));
  check(cub::DeviceRadixSort::SortPairs(room, bytes, s.keys, s.sorted_keys, s.order, s.sorted_order,
                                        static_cast<int>(count), 0, bits, stream()),
        "embedding_grad: sort");
}

__global__ void write_keys(Picks picks, uint32_t none, Sorted s) {
  int64_t stride = int64_t{blockDim.x} * gridDim.x;
  int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (first == 0) *s.crowds = 0;
  for (int64_t i = first; i < picks.count; i += stride) {
    int64_t row = picks.row(i);
    s.keys[i] = row < 0 ? none : static_cast<uint32_t>(row);
    s.order[i] = static_cast<int32_t>(i);
  }
}

// The first of the sorted keys that is not below `key`.
__device__ int lower_bound(const uint32_t* keys, int count, uint32_t key) {
  int begin = 0, end = count;
  while (begin < end) {
    int middle = (begin + end) / 2;
    if (keys[middle] < key) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

__global__ void find_begins(Sorted s, int count, int64_t all_rows) {
  int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; row <= all_rows;
       row += stride) {
    int begin = lower_bound(s.sorted_keys, count, static_cast<uint32_t>(row));
    s.begins[row] = begin;
    // Its sum does not depend on where in the list it stands.
    bool is_crowded = row < all_rows && begin + kFewOfRow < count &&
                      s.sorted_keys[begin + kFewOfRow] == static_cast<uint32_t>(row);
    if (is_crowded) s.crowded[atomicAdd(s.crowds, 1)] = static_cast<int32_t>(row);
  }
}

struct SumPicks {
  View from, to;
  int64_t d, all_rows;
  float factor;
  bool packs;  // eight neighbours of every row can be read and written at once
};

__device__ void write_eight(const SumPicks& a, int64_t row, int64_t column, Eight sum) {
  if (column >= a.d) return;
  const int64_t first = row * a.d + column;
#pragma unroll
  for (float& each : sum.at) each *= a.factor;
  if (a.packs) return store_eight(a.to, first, sum);
  for (int k = 0; k < 8 && column + k < a.d; ++k) store(a.to, first + k, sum.at[k]);
}

constexpr int kTile = 256;  // columns of a warp at once
constexpr int kTiles = 4;   // that a warp has on their way
constexpr int kRowsOfWarp = 8;

// Columns from `first` on, of up to kFewOfRow picks.
template <class Reader>
__device__ void sum_few(const SumPicks& a, const int32_t* order, int64_t row, int begin, int end,
                        int64_t first) {
  constexpr int kAtOnce = 2;
  Eight sums[kTiles] = {};
  for (int at = begin; at < end; at += kAtOnce) {
    typename Reader::Codes codes[kAtOnce][kTiles];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      bool inside = at + i < end;
      int64_t pick = order[inside ? at + i : at];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        codes[i][tile] = Reader::read(a.from, a.d, pick, first + tile * kTile, inside);
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce * kTiles; ++i) {
      Eight next = codes[i / kTiles][i % kTiles].numbers();
#pragma unroll
      for (int k = 0; k < 8; ++k) sums[i % kTiles].at[k] += next.at[k];
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) write_eight(a, row, first + tile * kTile, sums[tile]);
}

template <class Reader>
__global__ void __launch_bounds__(kThreads) sum_rows(const __grid_constant__ SumPicks a, Sorted s) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t first_row = (int64_t{blockIdx.x} * (kThreads / 32) + warp) * kRowsOfWarp;
  const int64_t end_row = min(first_row + kRowsOfWarp, a.all_rows);
  for (int64_t row = first_row; row < end_row; ++row) {
    const int begin = s.begins[row], end = s.begins[row + 1];
    if (end - begin > kFewOfRow) continue;
    for (int64_t column = 0; column < a.d; column += kTiles * kTile) {
      sum_few<Reader>(a, s.sorted_order, row, begin, end, column + 8 * lane);
    }
  }
}

constexpr int kCrowdWarps = 32;

// Every kCrowdWarps-th pick from `at` on.
template <class Reader>
__device__ Eight sum_share(const SumPicks& a, const int32_t* order, int at, int end,
                           int64_t column) {
  constexpr int kAtOnce = Reader::kAtOnce < 4 ? 1 : 4;
  Eight sum{};
  for (; at < end; at += kAtOnce * kCrowdWarps) {
    typename Reader::Codes codes[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      bool inside = at + i * kCrowdWarps < end;
      codes[i] =
          Reader::read(a.from, a.d, order[inside ? at + i * kCrowdWarps : at], column, inside);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      Eight next = codes[i].numbers();
#pragma unroll
      for (int k = 0; k < 8; ++k) sum.at[k] += next.at[k];
    }
  }
  return sum;
}

template <class Reader>
__global__ void __launch_bounds__(32 * kCrowdWarps)
    sum_crowded_rows(const __grid_constant__ SumPicks a, Sorted s) {
  __shared__ float of_warps[kCrowdWarps][kTile];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int tiles = static_cast<int>((a.d + kTile - 1) / kTile);
  const int64_t items = int64_t{*s.crowds} * tiles;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int64_t row = s.crowded[item / tiles], first = item % tiles * kTile;
    const int begin = s.begins[row], end = s.begins[row + 1];
    Eight sum = sum_share<Reader>(a, s.sorted_order, begin + warp, end, first + 8 * lane);
    __syncthreads();  // the sums before have been added up
#pragma unroll
    for (int k = 0; k < 8; ++k) of_warps[warp][8 * lane + k] = sum.at[k];
    __syncthreads();
    const int64_t column = first + threadIdx.x;
    if (threadIdx.x >= kTile || column >= a.d) continue;
    float total = 0;
    for (int i = 0; i < kCrowdWarps; ++i) total += of_warps[i][threadIdx.x];
    store(a.to, row * a.d + column, total * a.factor);
  }
}

template <class Reader>
void launch_sums(const SumPicks& a, const Sorted& s) {
  constexpr unsigned kMostBlocks = 2 * 132;
  constexpr int64_t kRowsOfBlock = kThreads / 32 * kRowsOfWarp;
  sum_crowded_rows<Reader><<<kMostBlocks, 32 * kCrowdWarps, 0, stream()>>>(a, s);
  check(cudaGetLastError(), "embedding_grad: crowded rows");
  auto blocks = static_cast<unsigned>((a.all_rows + kRowsOfBlock - 1) / kRowsOfBlock);
  sum_rows<Reader><<<blocks, kThreads, 0, stream()>>>(a, s);
  check(cudaGetLastError(), "embedding_grad");
}

void launch_sums(const SumPicks& a, const Sorted& s) {
  if (!a.packs) return launch_sums<ReadEach>(a, s);
  switch (a.from.type) {
    case Type::fp16:
      return launch_sums<ReadPacks<Type::fp16>>(a, s);
    case Type::bf16:
      return launch_sums<ReadPacks<Type::bf16>>(a, s);
    case Type::e4m3:
      return launch_sums<ReadPacks<Type::e4m3>>(a, s);
    case Type::e5m2:
      return launch_sums<ReadPacks<Type::e5m2>>(a, s);
    default:
      return launch_sums<ReadPacks<Type::fp32>>(a, s);
  }
}

}  // namespace

int64_t many_picks_workspace(int64_t count, int64_t all_rows) {
  Sorted sizes(nullptr, count, all_rows);
  size_t bytes = 0;
  sort_picks(sizes, nullptr, bytes, count, all_rows);
  return sizes.bytes + static_cast<int64_t>(bytes);
}

void sum_many_picks(const Picks& picks, const View& from, const View& to, int64_t all_rows,
                    float factor, std::span<std::byte> workspace) {
  Sorted sorted(workspace.data(), picks.count, all_rows);
  write_keys<<<blocks_for(picks.count), kThreads, 0, stream()>>>(
      picks, static_cast<uint32_t>(all_rows), sorted);
  check(cudaGetLastError(), "embedding_grad: keys");
  size_t bytes = workspace.size() - static_cast<size_t>(sorted.bytes);
  sort_picks(sorted, sorted.room, bytes, picks.count, all_rows);
  find_begins<<<blocks_for(all_rows + 1), kThreads, 0, stream()>>>(
      sorted, static_cast<int>(picks.count), all_rows);
  check(cudaGetLastError(), "embedding_grad: begins");
  bool packs = packs_eight(from, picks.d) && packs_eight(to, picks.d) && from.scale == nullptr;
  launch_sums({from, to, picks.d, all_rows, factor, packs}, sorted);
}

}  // namespace sigma1::cuda
