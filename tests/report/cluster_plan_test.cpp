#include "sigma1/report/cluster_plan.h"

#include <gtest/gtest.h>

#include "sigma1/train/step_graphs.h"

namespace sigma1 {
namespace {

PlanInput tiny_plan() {
  PlanInput input;
  input.config.set("depth", "1");
  input.config.set("width", "16");
  input.config.set("ffn", "32");
  input.config.set("batch", "2");
  input.config.set("time", "16");
  input.config.size.vocabulary = 20;
  input.seconds = 0.1;
  input.cluster = {.node = 4, .near = 1e6, .far = 1e5, .memory = 1e9};
  return input;
}

double gradient_bytes(const TrainConfig& config) {
  std::shared_ptr<Graph> model = scaled_model(config, {});
  int64_t numbers = 0;
  for (Value parameter : model->parameters()) numbers += parameter.type().count();
  return 4 * static_cast<double>(numbers);
}

PlanRow plan(const PlanInput& input, int64_t gpus) {
  return plan_ranks(input, memory_table(input.config, cpu_device()), gpus);
}

TEST(ClusterPlan, OneGpuWaitsForNobody) {
  PlanRow row = plan(tiny_plan(), 1);
  EXPECT_EQ(row.exchange_seconds, 0);
  EXPECT_EQ(row.step_seconds, 0.1);
  EXPECT_EQ(row.efficiency, 1);
  EXPECT_EQ(row.tokens, 32);
}

TEST(ClusterPlan, ANodeSendsOverItsFastLinkAlone) {
  PlanInput input = tiny_plan();
  double bytes = gradient_bytes(input.config);
  PlanRow row = plan(input, 4);
  EXPECT_EQ(row.far_bytes, 0);
  EXPECT_NEAR(row.near_bytes, 2 * bytes * 3 / 4, 16);
  EXPECT_DOUBLE_EQ(row.exchange_seconds, row.near_bytes / 1e6);
  EXPECT_DOUBLE_EQ(row.step_seconds, 0.1 + row.exchange_seconds);
  EXPECT_DOUBLE_EQ(row.efficiency, 0.1 / row.step_seconds);
  input.by_nodes = true;
  EXPECT_NEAR(plan(input, 4).near_bytes, row.near_bytes, 16);
}

TEST(ClusterPlan, BetweenNodesTheSlowLinkCountsAndSumsByNodesSpareIt) {
  PlanInput input = tiny_plan();
  double bytes = gradient_bytes(input.config);
  PlanRow direct = plan(input, 16);
  EXPECT_NEAR(direct.near_bytes + direct.far_bytes, 2 * bytes * 15 / 16, 40);
  EXPECT_NEAR(direct.far_bytes / direct.near_bytes, 12.0 / 3, 1e-9);
  EXPECT_DOUBLE_EQ(direct.exchange_seconds, direct.far_bytes / 1e5);
  input.by_nodes = true;
  PlanRow by_nodes = plan(input, 16);
  EXPECT_DOUBLE_EQ(by_nodes.far_bytes, 2 * bytes / 4 * 3 / 4);
  EXPECT_DOUBLE_EQ(by_nodes.near_bytes, 2 * bytes * 3 / 4);
}

TEST(ClusterPlan, BackwardHidesWhatItsTimeAllows) {
  PlanInput input = tiny_plan();
  input.overlaps = true;
  EXPECT_EQ(plan(input, 4).exposed_seconds, 0);
  input.cluster.near = 1e4;
  PlanRow row = plan(input, 4);
  EXPECT_DOUBLE_EQ(row.exposed_seconds, row.exchange_seconds - kBackwardShare * 0.1);
}

// A rank that owns a whole table hands it to all others: the more there are, the longer.
TEST(ClusterPlan, SharesOfWholeTensorsSaveStatesAndLoadTheirOwner) {
  PlanInput input = tiny_plan();
  PlanRow whole = plan(input, 4);
  input.config.shard = "optimiser";
  PlanRow shared = plan(input, 4);
  EXPECT_LT(shared.memory, whole.memory);
  EXPECT_GT(shared.exchange_seconds, whole.exchange_seconds);
  EXPECT_GT(plan(input, 64).exchange_seconds, 10 * shared.exchange_seconds);
  EXPECT_TRUE(shared.fits);
  input.cluster.memory = 1e3;
  EXPECT_FALSE(plan(input, 4).fits);
}

TEST(ClusterPlan, AGivenNumberOfSequencesIsSharedAndMayNotDivide) {
  PlanInput input = tiny_plan();
  input.sequences = 24;
  PlanRow two = plan(input, 2), eight = plan(input, 8);
  EXPECT_EQ(two.batches, 6);
  EXPECT_EQ(eight.batches, 2);
  EXPECT_EQ(eight.tokens, 24 * 16);
  EXPECT_DOUBLE_EQ(eight.efficiency, 1.5 * 0.1 / eight.step_seconds);
}

}  // namespace
}  // namespace sigma1
