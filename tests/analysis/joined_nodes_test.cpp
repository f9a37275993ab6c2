#include "sigma1/analysis/joined_nodes.h"

#include <gtest/gtest.h>

#include "sigma1/analysis/node_groups.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

using Kind = NodeGroup::Kind;

// Three parts are put together, the whole is summed up by column, and goes on to a product.
class JoinedNodesTest : public testing::Test {
 protected:
  Graph graph;
  Value x = graph.input("x", {{4, 24}}), w = graph.parameter("w", {24, 2}, {});
  std::vector<Value> parts = split(x, 1, 3);
  Value whole, made, product;

  void join(std::vector<Value> of) {
    whole = concat(of, 1);
    made = relu(whole);
    product = matmul(reshape(made, {4, 24}), w);
    graph.mark_output("product", product);
  }
  Value sum_up(Value of) {
    Value result = sum(reshape(of, {2, 2, 24}), {0, 1});
    graph.mark_output("sum", result);
    return result;
  }
  std::vector<int> all() const { return {parts.front().node, whole.node, made.node}; }

  std::vector<std::vector<int>> groups(bool runs, bool takes) const {
    Grouping with{
        .is_pointwise = [](const Node& node) { return node.op == &relu_op; },
        .local_rows =
            [](const Node& node) {
              return node.op == &relu_op || node.op == &matmul_op ? node.outputs.front().rows() : 0;
            },
        .rows_fit = [](const std::vector<int>&) { return true; },
        .bundle_kind = [](const Node& node) { return node.op == &sum_op ? 1 : 0; },
        .takes_sum = [=](const NodeGroup& group,
                         int) { return takes && group.kind == Kind::joined; },
        .runs_joined = [=](const std::vector<int>&) { return runs; }};
    std::vector<std::vector<int>> found;
    for (const NodeGroup& group : group_nodes(graph, with)) {
      if (group.kind == Kind::joined) found.push_back(group.nodes);
    }
    return found;
  }
};

TEST_F(JoinedNodesTest, AreANodeItsConcatAndWhoReadsTheWhole) {
  join(parts);
  Value beside = sum_up(whole);
  std::vector<JoinedNodes> found = find_joined_nodes(graph);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, all());
  EXPECT_EQ(found[0].beside, std::vector<int>{beside.node});
}

TEST_F(JoinedNodesTest, AreNoneWhereAPartIsReadElsewhere) {
  join(parts);
  graph.mark_output("again", relu(parts[1]));
  EXPECT_TRUE(find_joined_nodes(graph).empty());
}

TEST_F(JoinedNodesTest, AreNoneWhereAPartIsWanted) {
  join(parts);
  graph.mark_output("part", parts[2]);
  EXPECT_TRUE(find_joined_nodes(graph).empty());
}

TEST_F(JoinedNodesTest, AreNoneOfPartsInAnotherOrder) {
  join({parts[1], parts[0], parts[2]});
  EXPECT_TRUE(find_joined_nodes(graph).empty());
}

TEST_F(JoinedNodesTest, AreNoneOfSomeOfTheParts) {
  whole = concat({parts[0], parts[1]}, 1);
  graph.mark_output("y", matmul(relu(whole), graph.parameter("v", {16, 2}, {})));
  EXPECT_TRUE(find_joined_nodes(graph).empty());
}

TEST_F(JoinedNodesTest, AreNoneWhereTwoGoOnFromTheWhole) {
  join(parts);
  graph.mark_output("other", matmul(tanh(whole), w));
  EXPECT_TRUE(find_joined_nodes(graph).empty());
}

TEST_F(JoinedNodesTest, AreNoneWhereTheWholeIsWanted) {
  join(parts);
  graph.mark_output("whole", whole);
  EXPECT_TRUE(find_joined_nodes(graph).empty());
}

TEST_F(JoinedNodesTest, RunTogetherWithTheSum) {
  join(parts);
  std::vector<int> nodes = all();
  nodes.push_back(sum_up(whole).node);
  EXPECT_EQ(groups(true, true), std::vector<std::vector<int>>{nodes});
  EXPECT_TRUE(groups(false, true).empty());
  EXPECT_TRUE(groups(true, false).empty()) << "who sums up needs the whole";
}

TEST_F(JoinedNodesTest, RunTogetherWithoutASum) {
  join(parts);
  EXPECT_EQ(groups(true, false), std::vector<std::vector<int>>{all()});
}

}  // namespace
}  // namespace sigma1
