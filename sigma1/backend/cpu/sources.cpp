#include "sigma1/graph/sources.h"

#include <cmath>
#include <numbers>

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/move.h"
#include "sigma1/ops/positions.h"

namespace sigma1::cpu {
namespace {

void run_constant(const Launch& launch) {
  const Buffer& out = launch.out();
  double value = launch.attr<double>("value");
  if (out.kind == Kind::index) {
    std::fill_n(out.indices(), out.count(), static_cast<int32_t>(value));
    return;
  }
  auto scaled = static_cast<float>(value * static_cast<double>(launch.factor()));
  for_each_tile(out.count(), [&](int64_t first, int64_t count) {
    float room[kTile];
    float* to = target(out, first, room);
    std::fill_n(to, count, scaled);
    store(out, first, count, to, launch.random[0]);
  });
}

// Angular frequencies, one per pair of components.
int64_t frequencies_workspace(const Launch& launch) {
  return launch.attr<int64_t>("components") / 2 * static_cast<int64_t>(sizeof(double));
}

// In double: a phase grows with the position, and fp32 would lose the digits behind the point.
void run_sinusoids(const Launch& launch) {
  const Buffer& out = launch.out();
  int64_t pairs = launch.attr<int64_t>("components") / 2;
  double ratio = 2 / launch.attr<double>("longest"), factor = static_cast<double>(launch.factor());
  auto* frequency = reinterpret_cast<double*>(launch.workspace.data());
  for (int64_t j = 0; j < pairs; ++j) {
    double along = static_cast<double>(j) / static_cast<double>(pairs - 1);
    frequency[j] = std::numbers::pi * std::pow(ratio, along);
  }
  for_each_tile(out.count(), [&](int64_t first, int64_t count) {
    float room[kTile];
    float* to = target(out, first, room);
    for (int64_t i = 0; i < count; i += 2) {
      int64_t pair = (first + i) / 2, row = pair / pairs;
      double phase = static_cast<double>(row) * frequency[pair % pairs];
      to[i] = static_cast<float>(factor * std::sin(phase));
      to[i + 1] = static_cast<float>(factor * std::cos(phase));
    }
    store(out, first, count, to, launch.random[0]);
  });
}

constexpr Kernel kKernels[] = {{&constant_op, run_constant},
                               {&sinusoids_op, run_sinusoids, frequencies_workspace}};

}  // namespace

std::span<const Kernel> source_kernels() { return kKernels; }

}  // namespace sigma1::cpu
