// Sums over picks of the same row in one launch: a block has a few rows, looks through all picks
// for those that name one of them, and sorts these in shared memory. A row of few picks is half a
// warp's, and one of many the whole block's, so that a row that everyone picks is no long wait.
// Rows are dealt out to blocks like cards, since those that many pick are neighbours where they are
// the letters of an alphabet.
#include "sigma1/backend/cuda/column_sums.cuh"
#include "sigma1/backend/cuda/picks.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {
namespace {

constexpr int kRows = 32;  // of a block, as a warp has lanes
constexpr int kWarps = kThreads / 32;
constexpr int kFewOfRow = 8;  // half a warp sums no more
constexpr unsigned kAll = 0xFFFFFFFF;

struct FewPicks {
  Picks picks;
  View from, to;
  int64_t all_rows;
  float factor;
  bool packs;  // eight neighbours of every row can be read and written at once
};

__device__ inline int64_t row_of_block(int row) {
  return blockIdx.x + static_cast<int64_t>(row) * gridDim.x;
}

// A pick that names one of the block's rows.
struct Found {
  uint16_t pick, row;
};

// The block's picks by row, those of a row in their order.
struct SortedPicks {
  Found found[kFewPicks];  // as they come, each warp's from where its share of all picks begins
  int found_by[kWarps];
  uint16_t order[kFewPicks];
  int begin[kRows + 1];  // of each row, in order
  int next[kRows];       // where a row's next one goes
};

__device__ inline int share_of(int count) { return (count + kThreads - 1) / kThreads * 32; }

// The indices that a warp looks at next, all under way at once; −1 behind the end.
struct Indices {
  static constexpr int kCount = 8;
  int of[kCount];

  __device__ Indices(const Picks& picks, int first, int end) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      int pick = first + 32 * i;
      of[i] = pick < end ? picks.indices[pick] : -1;
    }
  }
};

// Every warp looks through its share.
__device__ void find_picks(const Picks& picks, SortedPicks& s) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int count = static_cast<int>(picks.count), share = share_of(count);
  const int begin = warp * share, end = min(begin + share, count);
  int found = 0;
  for (int at = begin; at < end; at += 32 * Indices::kCount) {
    Indices indices(picks, at + lane, end);
#pragma unroll
    for (int i = 0; i < Indices::kCount; ++i) {
      int pick = at + lane + 32 * i, index = indices.of[i];
      int64_t of_all = pick / static_cast<int>(picks.picks) * picks.rows + index;
      bool exists = 0 <= index && index < picks.rows;
      unsigned row = static_cast<unsigned>(of_all) / gridDim.x;
      bool is_mine = exists && of_all == row_of_block(static_cast<int>(row));
      unsigned mine = __ballot_sync(kAll, is_mine);
      if (is_mine) {
        int place = begin + found + __popc(mine & ((1u << lane) - 1));
        s.found[place] = {static_cast<uint16_t>(pick), static_cast<uint16_t>(row)};
        atomicAdd(&s.next[row], 1);  // how many there are, for now
      }
      found += __popc(mine);
    }
  }
  if (lane == 0) s.found_by[warp] = found;
}

// By one warp: a lane has a row's number of picks, then where they begin.
__device__ void find_begins(SortedPicks& s) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int end = s.next[lane];
  for (int distance = 1; distance < 32; distance *= 2) {
    int before = __shfl_up_sync(kAll, end, distance);
    if (lane >= distance) end += before;
  }
  s.begin[lane + 1] = end;
  if (lane == 0) s.begin[0] = 0;
  __syncwarp();
  s.next[lane] = s.begin[lane];
  __syncwarp();
}

// By one warp, 32 picks after another.
__device__ void sort_found(int count, SortedPicks& s) {
  const int lane = static_cast<int>(threadIdx.x) % 32, share = share_of(count);
  for (int warp = 0; warp < kWarps; ++warp) {
    for (int at = 0; at < s.found_by[warp]; at += 32) {
      bool exists = at + lane < s.found_by[warp];
      Found found = exists ? s.found[warp * share + at + lane] : Found{0, kRows};
      unsigned same = __match_any_sync(kAll, found.row);
      int before = __popc(same & ((1u << lane) - 1));
      int place = exists ? s.next[found.row] + before : 0;
      __syncwarp();
      if (exists) {
        s.order[place] = found.pick;
        if (before == 0) s.next[found.row] += __popc(same);
      }
      __syncwarp();
    }
  }
}

// Picks [begin, end) in steps of `step`, of a lane's columns.
template <class Reader>
__device__ Eight sum_of(const FewPicks& a, const uint16_t* order, int begin, int end, int step,
                        int64_t column) {
  constexpr int kAtOnce = Reader::kAtOnce;
  Eight sum{};
  for (int at = begin; at < end; at += kAtOnce * step) {
    typename Reader::Codes codes[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      int place = at + i * step;
      codes[i] = place < end ? Reader::read(a.from, a.picks.d, order[place], column)
                             : typename Reader::Codes{};
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

__device__ void write_eight(const FewPicks& a, int64_t row, int64_t column, const Eight& sum) {
  int64_t first = row * a.picks.d + column;
  if (a.packs && column < a.picks.d) {
    for (int half : {0, 4}) {
      Four numbers;
      for (int k = 0; k < 4; ++k) numbers.at[k] = sum.at[half + k] * a.factor;
      store_four(a.to, first + half, numbers);
    }
    return;
  }
  for (int k = 0; k < 8 && column + k < a.picks.d; ++k)
    store(a.to, first + k, sum.at[k] * a.factor);
}

template <class Reader>
__device__ void sum_rows(const FewPicks& a, const SortedPicks& s, float* of_block) {
  ColumnThread self;
  const int rows = static_cast<int>((a.all_rows + gridDim.x - 1 - blockIdx.x) / gridDim.x);
  for (int64_t column = 8 * self.lane; column - 8 * self.lane < a.picks.d; column += kSumColumns) {
    for (int row = self.half; row < rows; row += self.halves) {
      int begin = s.begin[row], end = s.begin[row + 1];
      if (end - begin > kFewOfRow) continue;
      write_eight(a, row_of_block(row), column, sum_of<Reader>(a, s.order, begin, end, 1, column));
    }
    for (int row = 0; row < rows; ++row) {
      int begin = s.begin[row], end = s.begin[row + 1];
      if (end - begin <= kFewOfRow) continue;
      Eight sums[1] = {sum_of<Reader>(a, s.order, begin + self.half, end, self.halves, column)};
      add_warps(sums, of_block);
      int64_t at = column - 8 * self.lane + threadIdx.x;
      if (threadIdx.x >= kSumColumns || at >= a.picks.d) continue;
      store(a.to, row_of_block(row) * a.picks.d + at, of_block[threadIdx.x] * a.factor);
    }
  }
}

__global__ void __launch_bounds__(kThreads, 2) sum_found(const __grid_constant__ FewPicks a) {
  __shared__ SortedPicks s;
  __shared__ float of_block[kSumColumns];
  if (threadIdx.x < kRows) s.next[threadIdx.x] = 0;
  __syncthreads();
  find_picks(a.picks, s);
  __syncthreads();
  if (threadIdx.x < 32) {
    find_begins(s);
    sort_found(static_cast<int>(a.picks.count), s);
  }
  __syncthreads();
  with_reader(a.from.type, a.packs,
              [&]<class Reader>(Reader) { sum_rows<Reader>(a, s, of_block); });
}

}  // namespace

void sum_few_picks(const Picks& picks, const View& from, const View& to, int64_t all_rows,
                   float factor) {
  if (all_rows >= int64_t{1} << 31) throw Error("cuda: expected below 2^31 rows, got {}", all_rows);
  bool packs = packs_eight(from, picks.d) && packs_eight(to, picks.d) && from.scale == nullptr;
  auto blocks = static_cast<unsigned>((all_rows + kRows - 1) / kRows);
  sum_found<<<blocks, kThreads, 0, stream()>>>({picks, from, to, all_rows, factor, packs});
  check(cudaGetLastError(), "embedding_grad");
}

}  // namespace sigma1::cuda
