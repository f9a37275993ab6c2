#include "sigma1/analysis/memory_plan.h"

#include <gtest/gtest.h>

#include "sigma1/base/rng.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/passes/lowering.h"
#include "sigma1/runtime/placement.h"
#include "tests/models/training_graph.h"

namespace sigma1 {
namespace {

bool share_time(const Lifetime& a, const Lifetime& b) {
  return !(a.last < b.first || b.last < a.first);
}

void expect_sound(const std::vector<Lifetime>& tensors, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), tensors.size());
  EXPECT_GE(plan.bytes, plan.lower_bound);
  for (size_t a = 0; a < tensors.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % kArenaAlignment, 0);
    EXPECT_GE(plan.offsets[a], 0);
    EXPECT_LE(plan.offsets[a] + tensors[a].bytes, plan.bytes);
    for (size_t b = 0; b < a; ++b) {
      if (!share_time(tensors[a], tensors[b])) continue;
      bool apart = plan.offsets[a] + tensors[a].bytes <= plan.offsets[b] ||
                   plan.offsets[b] + tensors[b].bytes <= plan.offsets[a];
      ASSERT_TRUE(apart) << "tensors " << a << " and " << b;
    }
  }
}

TEST(MemoryPlan, NoTwoThatLiveTogetherShareBytes) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomStream random(seed, "lifetimes");
    uint64_t drawn = 0;
    auto pick = [&](uint32_t below) { return static_cast<int>(random.bits(drawn++) % below); };
    std::vector<Lifetime> tensors(static_cast<size_t>(1 + pick(120)));
    for (Lifetime& each : tensors) {
      each.first = pick(50);
      each.last = each.first + (pick(3) == 0 ? pick(50) : pick(4));
      each.bytes = pick(10) == 0 ? 0 : int64_t{1} << pick(14) | pick(64);
    }
    MemoryPlan plan = plan_memory(tensors);
    expect_sound(tensors, plan);
    int64_t most = 0;
    for (int t = 0; t < 110; ++t) {
      int64_t alive = 0;
      for (const Lifetime& each : tensors) {
        if (each.first <= t && t <= each.last) alive += (each.bytes + 63) / 64 * 64;
      }
      most = std::max(most, alive);
    }
    EXPECT_EQ(plan.lower_bound, most);
    EXPECT_LE(static_cast<double>(plan.bytes), 1.35 * static_cast<double>(most)) << seed;
  }
}

TEST(MemoryPlan, SimpleCasesNeedTheBound) {
  auto bytes_of = [](const std::vector<Lifetime>& tensors) {
    MemoryPlan plan = plan_memory(tensors);
    expect_sound(tensors, plan);
    EXPECT_EQ(plan.bytes, plan.lower_bound);
    return plan.bytes;
  };
  EXPECT_EQ(bytes_of({}), 0);
  EXPECT_EQ(bytes_of({{0, 0, 1}}), 64);
  EXPECT_EQ(bytes_of({{0, 1, 64}, {1, 2, 64}}), 128);              // both alive at 1
  EXPECT_EQ(bytes_of({{0, 1, 64}, {2, 3, 64}}), 64);               // one after the other
  EXPECT_EQ(bytes_of({{0, 1, 64}, {1, 2, 64}, {2, 3, 64}}), 128);  // a chain
  // Kept for backward, as activations are: each dies in the reverse order.
  EXPECT_EQ(bytes_of({{0, 9, 640}, {1, 8, 320}, {2, 7, 128}, {3, 6, 64}}), 640 + 320 + 128 + 64);
  // A gap that two small ones fill.
  EXPECT_EQ(bytes_of({{0, 4, 256}, {0, 1, 512}, {2, 4, 128}, {2, 4, 384}}), 768);
}

// What plan_memory was made for: a training step is planned near the bound in every precision.
TEST(MemoryPlan, OfATrainingStepIsNearTheBound) {
  for (const TrainingCase& each : training_cases()) {
    for (const char* precision : {"fp32", "fp16", "fp8"}) {
      TrainingCase larger = each;
      larger.config.depth = 6;
      Graph graph;
      build_training_graph(graph, larger, Scheme::paper);
      fold(graph);
      lower_precision(graph, Precision::named(precision));
      fuse_loss(graph);
      remove_dead_nodes(graph);
      std::map<std::string, std::string> stored;
      for (const auto& [name, value] : graph.outputs()) stored[name] = name;
      Placement placement = place_values(graph, stored);
      EXPECT_GE(placement.arena.bytes, placement.arena.lower_bound);
      EXPECT_LE(static_cast<double>(placement.arena.bytes),
                1.1 * static_cast<double>(placement.arena.lower_bound))
          << each.name << " in " << precision;
    }
  }
}

}  // namespace
}  // namespace sigma1
