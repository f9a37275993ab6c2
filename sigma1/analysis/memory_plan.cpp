#include "sigma1/analysis/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace sigma1 {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

int64_t most_alive(std::span<const Lifetime> tensors) {
  int last = 0;
  for (const Lifetime& each : tensors) last = std::max(last, each.last);
  std::vector<int64_t> change(static_cast<size_t>(last) + 2);
  for (const Lifetime& each : tensors) {
    change[static_cast<size_t>(each.first)] += aligned(each.bytes);
    change[static_cast<size_t>(each.last) + 1] -= aligned(each.bytes);
  }
  int64_t alive = 0, most = 0;
  for (int64_t each : change) most = std::max(most, alive += each);
  return most;
}

// Each in turn into the smallest gap that holds it among those it may not overlap.
MemoryPlan place(std::span<const Lifetime> tensors, const std::vector<size_t>& order) {
  MemoryPlan plan{std::vector<int64_t>(tensors.size()), 0, 0};
  std::vector<size_t> placed;  // by offset
  for (size_t tensor : order) {
    int64_t size = aligned(tensors[tensor].bytes), end = 0, best = -1, best_gap = 0;
    for (size_t other : placed) {
      if (!overlap(tensors[tensor], tensors[other])) continue;
      int64_t gap = plan.offsets[other] - end;
      if (gap >= size && (best < 0 || gap < best_gap)) best = end, best_gap = gap;
      end = std::max(end, plan.offsets[other] + aligned(tensors[other].bytes));
    }
    plan.offsets[tensor] = best < 0 ? end : best;
    plan.bytes = std::max(plan.bytes, plan.offsets[tensor] + size);
    auto at = std::ranges::upper_bound(placed, plan.offsets[tensor], {},
                                       [&](size_t other) { return plan.offsets[other]; });
    placed.insert(at, tensor);
  }
  return plan;
}

using Weight = int64_t (*)(const Lifetime&);

std::vector<size_t> heaviest_first(std::span<const Lifetime> tensors, Weight weight) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return weight(tensors[a]) > weight(tensors[b]); });
  return order;
}

}  // namespace

// Which order is best depends on the graph, and planning costs little: the largest first, the
// longest-lived, and what is both. Within a few percent of the bound for training steps.
MemoryPlan plan_memory(std::span<const Lifetime> tensors) {
  constexpr Weight kWeights[] = {
      [](const Lifetime& each) { return each.bytes; },
      [](const Lifetime& each) { return int64_t{each.last} - each.first + 1; },
      [](const Lifetime& each) { return each.bytes * (int64_t{each.last} - each.first + 1); }};
  MemoryPlan best{{}, std::numeric_limits<int64_t>::max(), 0};
  for (Weight weight : kWeights) {
    MemoryPlan plan = place(tensors, heaviest_first(tensors, weight));
    if (plan.bytes < best.bytes) best = std::move(plan);
  }
  best.lower_bound = most_alive(tensors);
  return best;
}

}  // namespace sigma1
