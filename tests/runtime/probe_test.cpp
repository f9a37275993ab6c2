#include "sigma1/runtime/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/base/rng.h"
#include "tests/runtime/run_program.h"
#include "tests/theorem/random_graph.h"

namespace sigma1 {
namespace {

TEST(TensorScale, SharesAreOfAllNumbersAndLossesOfThoseThatAreNotZero) {
  TensorScale scale{.name = "x", .format = "e4m3"};
  scale.stats.add(std::vector<float>{0, -0.0f, 1, 2, 1e-9f, 1e-9f, 0x1p-8f, 1e6f, INFINITY, 3});
  scale.loss.add(std::vector<float>{0, -0.0f, 1, 2, 1e-9f, 1e-9f, 0x1p-8f, 1e6f, INFINITY, 3},
                 FormatLimits::of(find_format("e4m3").format));
  EXPECT_DOUBLE_EQ(scale.zero(), 0.2);
  EXPECT_DOUBLE_EQ(scale.subnormal(), 0.1);
  EXPECT_DOUBLE_EQ(scale.saturated(), 0.2);
  EXPECT_DOUBLE_EQ(scale.nonfinite(), 0.1);
  EXPECT_DOUBLE_EQ(scale.underflow(), 0.25);
  EXPECT_DOUBLE_EQ(scale.lost(), 0.5);
  TensorScale zeros;
  zeros.stats.add(std::vector<float>(5, 0.0f));
  EXPECT_EQ(zeros.zero(), 1);
  EXPECT_EQ(zeros.lost() + zeros.underflow(), 0);
  EXPECT_EQ(TensorScale{}.zero() + TensorScale{}.saturated(), 0);
}

TEST(TensorRole, IsWrittenAndRead) {
  for (TensorRole role :
       {TensorRole::activation, TensorRole::weight, TensorRole::gradx, TensorRole::gradw}) {
    EXPECT_EQ(find_role(to_string(role)), role);
  }
  EXPECT_EQ(to_string(TensorRole::gradx), "gradx");
  EXPECT_EQ(find_role("gradient"), std::nullopt);
}

using Seen = std::map<std::pair<std::string, size_t>, std::vector<float>>;

Seen seen_by_observer(Program& program) {
  Seen seen;
  program.run(0, [&](const Node& node, size_t output, const Buffer& buffer) {
    seen[{node.name, output}] = read_floats(buffer);
  });
  return seen;
}

// Compares a run with chains to one without; gives how many tensors the chains hide.
size_t expect_same_bits(const std::shared_ptr<Graph>& graph, const Bindings& bindings) {
  ProgramRun fused(graph, bindings);
  Store store;
  Program apart(graph, store, {}, 0, Fusion::none);
  write_sources(store, bindings);
  Seen few = seen_by_observer(fused.program), all = seen_by_observer(apart);
  for (const auto& [key, values] : few) {
    EXPECT_TRUE(all.contains(key) && all.at(key) == values) << key.first;
  }
  for (const auto& [name, value] : graph->outputs()) {
    EXPECT_TRUE(bytes_of(fused.program.output(name)) == bytes_of(apart.output(name))) << name;
  }
  size_t hidden = 0;
  for (const auto& places : place_values(*graph, {}).places) {
    for (const Place& place : places) hidden += place.kind == Place::Kind::none;
  }
  EXPECT_EQ(all.size(), few.size() + hidden);
  return hidden;
}

// A probe may only look: every tensor is what a run with chains computes.
TEST(FusionNone, ComputesTheSameBitsOfEveryModel) {
  size_t hidden = 0;
  for (const TrainingCase& each : training_cases()) {
    SCOPED_TRACE(each.name);
    auto graph = lowered(each, Precision::named("fp32"));
    hidden += expect_same_bits(graph, training_bindings(*graph));
  }
  EXPECT_GT(hidden, 0u);
}

TEST(FusionNone, ShowsWhatChainsHide) {
  size_t with_chains = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    auto graph = std::make_shared<Graph>();
    build_random_model(*graph, seed);
    mark_gradients(*graph);
    fold(*graph);
    with_chains += expect_same_bits(graph, random_bindings(*graph, seed)) > 0;
  }
  EXPECT_GT(with_chains, 15u);
}

TEST(FusionNone, SeesEachNodeThatIsNoViewOrSource) {
  TrainingCase mlp = training_cases().front();
  auto graph = lowered(mlp, Precision::named("fp32"));
  Store store;
  Program apart(graph, store, {}, 0, Fusion::none);
  write_sources(store, training_bindings(*graph));
  std::set<std::string> seen;
  apart.run(0, [&](const Node& node, size_t, const Buffer&) { seen.insert(node.name); });
  for (const Node& node : graph->nodes()) {
    bool computed = node.op->evaluate != nullptr && !node.inputs.empty() &&
                    node.op->name != std::string_view("reshape");
    EXPECT_EQ(seen.contains(node.name), computed) << node.name << " " << node.op->name;
  }
}

}  // namespace
}  // namespace sigma1
