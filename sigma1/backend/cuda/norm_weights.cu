// Gradients of the weights of norms sum over rows: a block takes several rows, the sums of its
// warps are added in their order, and a second kernel adds up what the blocks found, in theirs.
#include <algorithm>

#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/norm_held.cuh"
#include "sigma1/backend/cuda/partial_sums.cuh"

namespace sigma1::cuda {
namespace {

// Blocks of rows that are held that a multiprocessor has at once.
constexpr int blocks_at_once(int warps, int packs) { return warps == 8 ? 1 : packs <= 2 ? 5 : 3; }

// How the rows are cut, by sizes alone.
struct Cut {
  explicit Cut(const Launch& launch) {
    constexpr int64_t kMultiprocessors = 132, kMinRows = 16;
    n = launch.in(0).shape.back();
    rows = launch.in(0).count() / n;
    int64_t most = 0;
    with_held_size(n, [&]<int kWarps, int kPacks>() {
      most = kMultiprocessors * blocks_at_once(kWarps, kPacks);
    });
    each = std::max(kMinRows, (rows + most - 1) / most);
    blocks = (rows + each - 1) / each;
    columns = static_cast<int64_t>(launch.outputs.size());
  }
  int64_t n, rows, each, blocks;
  int64_t columns;  // dw, or dw and dc
};

struct SumArguments {
  View x, dy;
  float* sums;  // [blocks, columns, n]
  int64_t n, rows, each, columns;
  float eps;

  __device__ int64_t begin() const { return int64_t{blockIdx.x} * each; }
  __device__ int64_t end() const { return min(begin() + each, rows); }
};

// The rows of this team of its block's, into dw[n], and dc[n] behind it.
template <class Team, bool centred>
__device__ void sum_rows(const SumArguments& a, float* sums) {
  float* dc = a.columns > 1 ? sums + a.n : nullptr;
  for_columns<Team>(a.n, [&](int64_t j) {
    sums[j] = 0;
    if (dc) dc[j] = 0;
  });
  for (int64_t row = a.begin() + Team::row(); row < a.end(); row += Team::rows()) {
    int64_t first = row * a.n;
    NormRow of = norm_row<Team, centred>(a.x, first, a.n, a.eps);
    for_columns<Team>(a.n, [&](int64_t j) {
      float dy = load(a.dy, first + j);
      sums[j] += dy * of.xhat(load(a.x, first + j));
      if (dc) dc[j] += dy;
    });
  }
}

// What the block's warps have found, in their order. All threads must come here.
__device__ void add_warps(const SumArguments& a, const float* of_warps) {
  int64_t count = a.columns * a.n;
  __syncthreads();
  for_columns<Block>(count, [&](int64_t j) {
    float sum = of_warps[j];
    for (int warp = 1; warp < kRowWarps; ++warp) sum += of_warps[warp * count + j];
    a.sums[int64_t{blockIdx.x} * count + j] = sum;
  });
}

template <bool centred>
__global__ void sum_by_warps(SumArguments a) {
  extern __shared__ float of_warps[];  // [kRowWarps, columns, n]
  sum_rows<Warp, centred>(a, of_warps + Warp::row() * a.columns * a.n);
  add_warps(a, of_warps);
}

// A thread adds to the same columns in every row, and to none of another thread's.
template <bool centred>
__global__ void sum_by_blocks(SumArguments a) {
  float* sums = a.sums + int64_t{blockIdx.x} * a.columns * a.n;
  sum_rows<Block, centred>(a, sums);
}

// A team's sums, in registers.
template <class Team, Type kType, int kPacks>
struct HeldSums {
  using Codes = RowCodes<Team, kType, kPacks>;
  Eight dw[kPacks] = {}, dc[kPacks] = {};

  __device__ void add(const Codes& x, const Codes& dy, const NormRow& norm) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Eight numbers = x.of[i].numbers(), d = dy.of[i].numbers();
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        dw[i].at[k] += d.at[k] * norm.xhat(numbers.at[k]);
        dc[i].at[k] += d.at[k];
      }
    }
  }

  __device__ void write(const SumArguments& a, float* to) const {
    View sums{to, Type::fp32, false, nullptr, a.columns * a.n};
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int column = Team::column(i);
      if (column >= a.n) break;
      store_eight(sums, column, dw[i]);
      if (a.columns > 1) store_eight(sums, a.n + column, dc[i]);
    }
  }
};

template <Type kType, int kWarps, int kPacks>
__global__ void __launch_bounds__(RowTeam<kWarps>::kBlockThreads, blocks_at_once(kWarps, kPacks))
    sum_held(const __grid_constant__ SumArguments a, bool centred) {
  extern __shared__ __align__(16) float of_teams[];  // [kRowWarps, columns, n] of single warps
  using Team = RowTeam<kWarps>;
  // The next row is on its way while one is computed, where there are registers for it.
  constexpr bool kAhead = kType != Type::fp32;
  const int64_t end = a.end();
  HeldSums<Team, kType, kPacks> sums;
  RowCodes<Team, kType, kPacks> x, dy, next_x, next_dy;
  auto read = [&](int64_t row, auto& to_x, auto& to_dy) {
    to_x.read(a.x, a.n, row, row < end);
    to_dy.read(a.dy, a.n, row, row < end);
  };
  int64_t row = a.begin() + Team::row();
  if (kAhead) read(row, x, dy);
  for (; row < end; row += Team::kRows) {
    if (kAhead) {
      read(row + Team::kRows, next_x, next_dy);
    } else {
      read(row, x, dy);
    }
    sums.add(x, dy, x.moments(a.n, centred, a.eps));
    if (kAhead) x = next_x, dy = next_dy;
  }
  const int64_t count = a.columns * a.n;
  if constexpr (kWarps == 1) {
    sums.write(a, of_teams + Team::row() * count);
    add_warps(a, of_teams);
  } else {
    sums.write(a, a.sums + int64_t{blockIdx.x} * count);
  }
}

bool sum_held_rows(const SumArguments& a, unsigned blocks, bool centred) {
  bool fits = a.dy.type == a.x.type && a.dy.scale == nullptr && packs_eight(a.dy, a.n);
  return fits && with_held_type(a.x, a.n, [&]<Type kType>() {
           with_held_size(a.n, [&]<int kWarps, int kPacks>() {
             auto floats = static_cast<size_t>(kWarps == 1 ? kRowWarps * a.columns * a.n : 0);
             launch_kernel("norm_weight_grad", sum_held<kType, kWarps, kPacks>,
                           {blocks, RowTeam<kWarps>::kBlockThreads, floats * sizeof(float)}, a,
                           centred);
           });
         });
}

template <bool centred>
void sum_plain_rows(const SumArguments& a, unsigned blocks) {
  if (a.n <= kWarpRow) {
    auto bytes = static_cast<size_t>(kRowWarps * a.columns * a.n) * sizeof(float);
    launch_kernel("norm_weight_grad", sum_by_warps<centred>, {blocks, kRowWarps * 32, bytes}, a);
  } else {
    launch_kernel("norm_weight_grad", sum_by_blocks<centred>, {blocks, row_threads(a.n)}, a);
  }
}

}  // namespace

int64_t norm_weight_grad_workspace(const Launch& launch) {
  Cut cut(launch);
  return cut.blocks * cut.columns * cut.n * static_cast<int64_t>(sizeof(float));
}

template <bool centred>
void run_norm_weight_grad(const Launch& launch) {
  Cut cut(launch);
  auto* sums = reinterpret_cast<float*>(launch.workspace.data());
  if (cut.rows > 0) {
    SumArguments arguments{.x = view_of(launch.in(0)),
                           .dy = view_of(launch.in(1)),
                           .sums = sums,
                           .n = cut.n,
                           .rows = cut.rows,
                           .each = cut.each,
                           .columns = cut.columns,
                           .eps = static_cast<float>(launch.attr<double>("eps"))};
    auto blocks = static_cast<unsigned>(cut.blocks);
    if (!sum_held_rows(arguments, blocks, centred)) sum_plain_rows<centred>(arguments, blocks);
  }
  PartialSums of_outputs[kMostPartialSums];
  for (size_t o = 0; o < launch.outputs.size(); ++o) {
    of_outputs[o] = {sums + static_cast<int64_t>(o) * cut.n,
                     cut.blocks,
                     cut.columns * cut.n,
                     cut.n,
                     output_of(launch, o),
                     launch.factor(o)};
  }
  add_parts({of_outputs, launch.outputs.size()});
}

template void run_norm_weight_grad<true>(const Launch& launch);
template void run_norm_weight_grad<false>(const Launch& launch);

}  // namespace sigma1::cuda
