#include "sigma1/ops/reduce.h"

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/layout.h"
#include "sigma1/backend/cpu/move.h"

namespace sigma1::cpu {
namespace {

using Axes = std::vector<int64_t>;

// A sum in two stages, so that all threads have work whichever axes are summed: chunks of the
// summed elements give partial sums, whose sums are the result. Sums of sums also lose less to
// rounding. What is cut depends on shapes alone.
struct Reduction : SummedAxes {
  // Rows in a chunk when whole rows are added: enough to make the partial sums a small part of the
  // work, few enough for all threads and for precision.
  static constexpr int64_t kMinRows = 64, kMaxRows = 512;
  static constexpr int64_t kChunk = 16 * kTile;  // elements of one output's chunk, else

  int64_t chunk, chunks;

  Reduction(const Shape& full, const Axes& axes) : SummedAxes(full, axes) {
    chunk = columns == 1 ? kChunk : std::clamp(2 * kChunk / columns, kMinRows, kMaxRows);
    chunk = std::min(chunk, summed.count());
    chunks = (summed.count() + chunk - 1) / chunk;
  }

  int64_t column_tiles() const { return (columns + kTile - 1) / kTile; }
  int64_t partials() const { return chunks * outputs(); }
};

// Σ of elements [first, last) of the summed ones, which lie in runs.
float sum_runs(const Reduction& r, const Buffer& x, int64_t base, int64_t first, int64_t last) {
  double total = 0;
  while (first < last) {
    int64_t left = r.summed.run() - first % r.summed.run();
    int64_t n = std::min({left, last - first, kTile});
    float room[kTile];
    total += static_cast<double>(vectors().sum(load(x, base + r.summed.offset(first), n, room), n));
    first += n;
  }
  return static_cast<float>(total);
}

// Σ of rows [first, last), of which `count` columns from `base` on.
void sum_rows(const Reduction& r, const Buffer& x, int64_t base, int64_t first, int64_t last,
              int64_t count, float* to) {
  copy_numbers({&x, base + r.summed.offset(first), count}, count, to, 1);
  for (int64_t row = first + 1; row < last; ++row) {
    float room[kTile];
    vectors().add_scaled(load(x, base + r.summed.offset(row), count, room), to, count, 1);
  }
}

// partial[chunk][output]
void sum_chunks(const Reduction& r, const Buffer& x, float* partial) {
  int64_t tiles = r.column_tiles(), groups = r.groups.count();
  int64_t work = r.chunk * std::min(r.columns, kTile);  // elements of one item
  auto grain = static_cast<size_t>(std::max<int64_t>(1, 2 * Reduction::kChunk / work));
  parallel_for(
      static_cast<size_t>(tiles * groups * r.chunks), grain, [&](size_t begin, size_t end) {
        for (auto item = static_cast<int64_t>(begin); item < static_cast<int64_t>(end); ++item) {
          int64_t column = item % tiles * kTile, group = item / tiles % groups;
          int64_t chunk = item / tiles / groups;
          int64_t first = chunk * r.chunk, last = std::min(first + r.chunk, r.summed.count());
          int64_t base = r.groups.offset(group) + column;
          float* to = partial + chunk * r.outputs() + group * r.columns + column;
          if (r.columns == 1) {
            *to = sum_runs(r, x, base, first, last);
          } else {
            sum_rows(r, x, base, first, last, std::min(kTile, r.columns - column), to);
          }
        }
      });
}

void run_reduction(const Launch& launch, bool mean) {
  const Buffer& out = launch.out();
  Reduction r(launch.in(0).shape, launch.attr<Axes>("axes"));
  auto* partial = reinterpret_cast<float*>(launch.workspace.data());
  sum_chunks(r, launch.in(0), partial);
  float factor = launch.factor() / (mean ? static_cast<float>(r.summed.count()) : 1);
  for_each_tile(out.count(), [&](int64_t first, int64_t count) {
    float room[kTile];
    float* to = target(out, first, room);
    std::copy_n(partial + first, count, to);
    for (int64_t chunk = 1; chunk < r.chunks; ++chunk) {
      vectors().add_scaled(partial + chunk * r.outputs() + first, to, count, 1);
    }
    vectors().scale(to, to, count, factor);
    store(out, first, count, to, launch.random[0]);
  });
}

void run_sum(const Launch& launch) { run_reduction(launch, false); }
void run_mean(const Launch& launch) { run_reduction(launch, true); }

int64_t partials_workspace(const Launch& launch) {
  Reduction r(launch.in(0).shape, launch.attr<Axes>("axes"));
  return r.partials() * static_cast<int64_t>(sizeof(float));
}

void run_broadcast(const Launch& launch) {
  const Buffer& x = launch.in(0);
  Layout layout = broadcast_layout(x.shape, launch.out().shape, launch.attr<Axes>("axes"));
  bool repeated = layout.run_stride() == 0;
  move(launch, 0, moves_bytes(launch, 0), [&](int64_t i) {
    return Piece{&x, layout.offset(i), layout.run() - i % layout.run(), repeated};
  });
}

constexpr Kernel kKernels[] = {{&sum_op, run_sum, partials_workspace},
                               {&mean_op, run_mean, partials_workspace},
                               {&broadcast_op, run_broadcast}};

}  // namespace

std::span<const Kernel> reduce_kernels() { return kKernels; }

}  // namespace sigma1::cpu
