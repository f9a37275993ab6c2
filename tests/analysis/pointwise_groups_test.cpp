#include "sigma1/analysis/pointwise_groups.h"

#include <gtest/gtest.h>

#include <set>

#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "tests/models/training_graph.h"

namespace sigma1 {
namespace {

using Groups = std::vector<std::vector<int>>;

bool is_pointwise(const Node& node) {
  const std::set<const OpDef*> ops{&relu_op, &gelu_op,  &tanh_op,     &mul_op,
                                   &add_op,  &scale_op, &identity_op, &weighted_add_op};
  return ops.contains(node.op);
}

Groups groups_of(const Graph& graph) { return pointwise_groups(graph, is_pointwise); }

TEST(PointwiseGroups, AChainIsOne) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  tanh(scale(relu(x), 2));
  EXPECT_EQ(groups_of(graph), (Groups{{0}, {1, 2, 3}}));
}

TEST(PointwiseGroups, WhatOthersReadEndsAChain) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  Value bent = relu(x);
  Value twice = scale(bent, 2);
  tanh(bent);
  EXPECT_EQ(groups_of(graph), (Groups{{0}, {1}, {2}, {3}}));
  Graph marked;
  Value y = marked.input("x", {{4}});
  Value seen = relu(y);
  tanh(seen);
  marked.mark_output("seen", seen);
  EXPECT_EQ(groups_of(marked), (Groups{{0}, {1}, {2}}));
  EXPECT_EQ(twice.shape(), (Shape{4}));
}

TEST(PointwiseGroups, AValueReadTwiceByOneNodeIsStored) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  Value bent = relu(x);
  mul(bent, bent);
  EXPECT_EQ(groups_of(graph), (Groups{{0}, {1}, {2}}));
}

TEST(PointwiseGroups, BranchesThatMeetAreOne) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  Value a = relu(x), b = tanh(x), c = scale(b, 2);
  mul(a, c);
  EXPECT_EQ(groups_of(graph), (Groups{{0}, {1, 2, 3, 4}}));
}

// A shorter operand is read again and again: it is computed once, beside.
TEST(PointwiseGroups, AShorterOperandStaysOutside) {
  Graph graph;
  Value x = graph.input("x", {{3, 4}}), row = graph.input("row", {{4}});
  Value bent = relu(x), bent_row = tanh(row);
  mul(bent, bent_row);
  EXPECT_EQ(groups_of(graph), (Groups{{0}, {1}, {3}, {2, 4}}));
}

TEST(PointwiseGroups, OtherOpsStandAlone) {
  Graph graph;
  Value x = graph.input("x", {{4, 4}});
  Value product = matmul(relu(x), x);
  tanh(transpose(scale(product, 2), {1, 0}));
  EXPECT_EQ(groups_of(graph), (Groups{{0}, {1}, {2}, {3}, {4}, {5}}));
}

// Every node once, after what it reads, and inner values read by their group alone.
TEST(PointwiseGroups, OfATrainingStepCanBeRun) {
  for (const TrainingCase& each : training_cases()) {
    Graph graph;
    build_training_graph(graph, each);
    std::set<int> done;
    for (const std::vector<int>& group : groups_of(graph)) {
      for (int i : group) {
        for (Value input : graph.node(i).inputs) {
          ASSERT_TRUE(done.contains(input.node)) << graph.node(i).name;
        }
        ASSERT_TRUE(done.insert(i).second) << graph.node(i).name;
        ASSERT_TRUE(group.size() == 1 || is_pointwise(graph.node(i)));
      }
    }
    EXPECT_EQ(std::ssize(done), graph.size());
  }
}

}  // namespace
}  // namespace sigma1
