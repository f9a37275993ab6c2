#include "sigma1/passes/place_collectives.h"

#include <gtest/gtest.h>

#include "sigma1/analysis/communication.h"
#include "sigma1/graph/verify.h"
#include "sigma1/ops/collective.h"
#include "sigma1/passes/precision.h"

namespace sigma1 {
namespace {

// Three tensors of 4, 6 and 100 numbers; the second stored in fp16.
void fill(Graph& graph) {
  for (auto [name, shape] : {std::pair{"a", Shape{4}}, {"b", Shape{2, 3}}, {"c", Shape{100}}}) {
    graph.mark_output(name, graph.input(name, {shape}, false));
  }
  graph.node(1).storage = {storage_cast("fp16")};
}

TEST(PlaceCollectives, EveryOutputIsSummedAndKeepsNameAndStorage) {
  Graph graph;
  fill(graph);
  sum_outputs(graph, {.world = 4, .format = "bf16"});
  verify(graph);
  std::vector<CollectiveCost> costs = collective_costs(graph);
  ASSERT_EQ(costs.size(), 1U);
  EXPECT_EQ(costs[0].op, "all_reduce");
  EXPECT_EQ(costs[0].format, "bf16");
  EXPECT_EQ(costs[0].tensors, 3);
  EXPECT_EQ(costs[0].numbers, 110);
  EXPECT_EQ(costs[0].bytes, 220);
  EXPECT_EQ(costs[0].most_sent, 2 * 165);  // three quarters there, and sums back
  for (const char* name : {"a", "b", "c"}) {
    Value value = graph.output(name);
    EXPECT_EQ(graph.node(value.node).op, &all_reduce_op);
    const Cast& stored = graph.node(value.node).storage[static_cast<size_t>(value.output)];
    EXPECT_EQ(stored.format, find_format(name == std::string("b") ? "fp16" : "fp32").format);
  }
}

TEST(PlaceCollectives, NeighboursShareABucketUntilItIsFull) {
  Graph graph;
  fill(graph);
  sum_outputs(graph, {.world = 2, .format = "fp32", .bucket_bytes = 40});
  std::vector<CollectiveCost> costs = collective_costs(graph);
  ASSERT_EQ(costs.size(), 2U);
  EXPECT_EQ(costs[0].tensors, 2);
  EXPECT_EQ(costs[1].tensors, 1);  // larger than a bucket, and whole
  EXPECT_EQ(costs[1].bytes, 400);
}

TEST(PlaceCollectives, WithOwnersSumsGoToOneAndWeightsComeFromOne) {
  std::vector<int64_t> owners{1, 0, 2};
  Graph sums;
  fill(sums);
  sum_outputs(sums, {.world = 3, .format = "fp16"}, owners);
  verify(sums);
  EXPECT_EQ(collective_costs(sums)[0].op, "reduce_scatter");
  EXPECT_EQ(collective_costs(sums)[0].most_sent, 220 - 8);  // by the owner of least
  EXPECT_EQ(collective_costs(sums)[0].most_received, 2 * 200);
  Graph gathers;
  fill(gathers);
  gather_outputs(gathers, {.world = 3}, owners);
  verify(gathers);
  EXPECT_EQ(collective_costs(gathers)[0].op, "all_gather");
  EXPECT_EQ(collective_costs(gathers)[0].format, "stored");
  EXPECT_EQ(collective_costs(gathers)[0].bytes, 16 + 12 + 400);
  EXPECT_EQ(collective_costs(gathers)[0].most_sent, 2 * 400);
  EXPECT_EQ(collective_costs(gathers)[0].most_received, 16 + 400);
}

TEST(BalancedOwners, GivesTheLargestFirstToWhoHasLeast) {
  std::vector<int64_t> sizes{1, 10, 4, 5, 2};
  EXPECT_EQ(balanced_owners(sizes, 2), (std::vector<int64_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(balanced_owners(sizes, 1), (std::vector<int64_t>(5, 0)));
}

}  // namespace
}  // namespace sigma1
