#include "sigma1/analysis/node_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

using Kind = NodeGroup::Kind;

// Norms, products without transposes and pointwise ops are local to rows; at most `most` of them
// run together. Sums that nobody reads are of one kind.
Grouping grouping(size_t most = 100) {
  auto is_pointwise = [](const Node& node) { return node.op == &relu_op || node.op == &add_op; };
  return {.is_pointwise = is_pointwise,
          .local_rows =
              [=](const Node& node) {
                bool local =
                    is_pointwise(node) || node.op == &matmul_op || node.op == &layer_norm_op;
                return local ? node.outputs.front().rows() : 0;
              },
          .rows_fit = [=](const std::vector<int>& nodes) { return nodes.size() <= most; },
          .bundle_kind = [](const Node& node) { return node.op == &sum_op ? 1 : 0; }};
}

std::vector<int> nodes_of(std::initializer_list<Value> values) {
  std::vector<int> nodes;
  for (Value value : values) nodes.push_back(value.node);
  return nodes;
}

std::vector<std::vector<int>> groups_of(const Graph& graph, Kind kind, size_t most = 100,
                                        std::function<bool(const Node&)> reaches_rows = {}) {
  Grouping with = grouping(most);
  with.reaches_rows = std::move(reaches_rows);
  std::vector<std::vector<int>> found;
  for (const NodeGroup& group : group_nodes(graph, with)) {
    if (group.kind == kind) found.push_back(group.nodes);
  }
  return found;
}

class NodeGroups : public testing::Test {
 protected:
  Graph graph;
  Value x = graph.input("x", {{6, 4}}), w = graph.parameter("w", {4, 4}, {});
};

TEST_F(NodeGroups, WhatIsLocalToRowsRunsTogetherThroughReshapes) {
  Value a = matmul(x, w), b = relu(reshape(a, {2, 3, 4})), c = layer_norm(b);
  EXPECT_EQ(groups_of(graph, Kind::rows), (std::vector<std::vector<int>>{nodes_of({a, b, c})}));
}

// b is computed from a by way of what mixes rows: all three together would wait for themselves.
TEST_F(NodeGroups, ARowIsLeftAndEnteredAgainInAnotherGroup) {
  Value a = matmul(x, w), also = relu(a), mixed = transpose(a, {1, 0});
  Value b = add({reshape(mixed, {6, 4}), also}), c = matmul(b, w);
  EXPECT_EQ(groups_of(graph, Kind::rows),
            (std::vector<std::vector<int>>{nodes_of({a, also}), nodes_of({b, c})}));
}

// Its inputs' rows are of another group, which so comes before it.
TEST_F(NodeGroups, WhatReachesForOtherRowsBeginsAGroup) {
  Value a = matmul(x, w), b = relu(a), normed = layer_norm(b), c = matmul(normed, w);
  Value d = add({b, c});
  auto is_norm = [](const Node& node) { return node.op == &layer_norm_op; };
  EXPECT_EQ(groups_of(graph, Kind::rows, 100, is_norm),
            (std::vector<std::vector<int>>{nodes_of({a, b}), nodes_of({normed, c, d})}));
  EXPECT_EQ(groups_of(graph, Kind::rows),
            (std::vector<std::vector<int>>{nodes_of({a, b, normed, c, d})}));
}

TEST_F(NodeGroups, RowsOfAnotherNumberAreAnotherGroup) {
  Value y = graph.input("y", {{3, 4}});
  Value a = matmul(x, w), b = matmul(y, w), c = relu(a), d = relu(b);
  EXPECT_EQ(groups_of(graph, Kind::rows),
            (std::vector<std::vector<int>>{nodes_of({a, c}), nodes_of({b, d})}));
}

TEST_F(NodeGroups, WhatDoesNotFitIsCut) {
  Value a = matmul(x, w), b = relu(a), c = matmul(b, w), d = relu(c);
  EXPECT_EQ(groups_of(graph, Kind::rows, 2),
            (std::vector<std::vector<int>>{nodes_of({a, b}), nodes_of({c, d})}));
}

TEST_F(NodeGroups, PointwiseOpsAloneAreAChain) {
  Value a = relu(x), b = relu(a);
  EXPECT_TRUE(groups_of(graph, Kind::rows).empty());
  EXPECT_EQ(groups_of(graph, Kind::pointwise), (std::vector<std::vector<int>>{nodes_of({a, b})}));
}

TEST_F(NodeGroups, WhatNobodyReadsRunsTogetherAtTheEnd) {
  Value first = sum(x, {0}), a = matmul(x, w), second = sum(a, {0});
  Value read = sum(x, {0}), reader = relu(read);
  std::vector<NodeGroup> groups = group_nodes(graph, grouping());
  EXPECT_EQ(groups_of(graph, Kind::bundle),
            (std::vector<std::vector<int>>{nodes_of({first, second})}));
  size_t bundle = 0, product = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].kind == Kind::bundle) bundle = i;
    if (groups[i].nodes.back() == a.node) product = i;
  }
  EXPECT_GT(bundle, product);
  EXPECT_EQ(reader.shape(), (Shape{4}));
}

// Sums and their casts stand for optimiser steps and copies of weights.
TEST_F(NodeGroups, ABundleTakesCastsOfItsOutputs) {
  Value first = sum(x, {0}), second = sum(x, {0}), third = sum(x, {0}), fourth = sum(x, {0});
  Value cast = scale(first, 1), after = scale(cast, 1), other = relu(second);
  Value unseen = scale(third, 1);  // of no output
  Value last = scale(fourth, 1);
  for (Value each : {first, second, fourth, cast, after, other, unseen, last}) {
    graph.mark_output("output" + std::to_string(each.node), each);
  }
  Grouping with = grouping();
  EXPECT_TRUE(groups_of(graph, Kind::bundle).empty()) << "all are read";
  with.bundle_takes = [](int kind, const Node& node) { return kind == 1 && node.op == &scale_op; };
  std::vector<std::vector<int>> bundles;
  for (const NodeGroup& group : group_nodes(graph, with)) {
    if (group.kind == Kind::bundle) bundles.push_back(group.nodes);
  }
  EXPECT_EQ(bundles, (std::vector<std::vector<int>>{nodes_of({first, fourth, cast, after, last})}));
}

TEST_F(NodeGroups, EveryNodeButViewsIsThereOnce) {
  Value a = reshape(matmul(x, w), {24});
  Value kept = reshape(relu(a), {4, 6});
  graph.mark_output("kept", kept);
  std::vector<int> seen;
  for (const NodeGroup& group : group_nodes(graph, grouping())) {
    seen.insert(seen.end(), group.nodes.begin(), group.nodes.end());
  }
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 4, kept.node}));
}

// A sum over rows is computed beside the chain that has what it sums up: inner values of the chain
// stay inner ones.
class SumsBeside : public NodeGroups {
 protected:
  std::vector<std::vector<int>> chains(bool takes) {
    Grouping with = {.is_pointwise = [](const Node& node) { return node.op == &relu_op; },
                     .takes_sum =
                         [=, this](const NodeGroup& group, int sum) {
                           return takes && graph.node(sum).op == &sum_op &&
                                  graph.node(group.nodes.back()).op == &relu_op;
                         }};
    std::vector<std::vector<int>> found;
    for (const NodeGroup& group : group_nodes(graph, with)) {
      if (group.nodes.size() > 1) found.push_back(group.nodes);
    }
    return found;
  }
};

TEST_F(SumsBeside, AnInnerValueMayBeSummedUp) {
  Value a = relu(x), b = relu(a), s = sum(reshape(a, {2, 3, 4}), {0, 1});
  graph.mark_output("b", b);
  graph.mark_output("s", s);
  EXPECT_EQ(chains(true), (std::vector<std::vector<int>>{nodes_of({a, b, s})}));
  EXPECT_TRUE(chains(false).empty());
}

TEST_F(SumsBeside, WhatAChainReadsMayBeSummedUp) {
  Value a = matmul(x, w), b = relu(a), s = sum(a, {0});
  graph.mark_output("b", b);
  graph.mark_output("s", s);
  EXPECT_EQ(chains(true), (std::vector<std::vector<int>>{nodes_of({b, s})}));
}

TEST_F(SumsBeside, ASumThatIsReadStaysAlone) {
  Value a = relu(x), s = sum(a, {0}), after = matmul(a, broadcast(s, {4, 4}, {0}));
  graph.mark_output("after", after);
  EXPECT_TRUE(chains(true).empty());
}

// Of two sums a chain of rows takes the one it can; the other is bundled, as all would be.
TEST_F(NodeGroups, ChainsOfRowsTakeSumsBeforeBundlesDo) {
  Value a = matmul(x, w), b = relu(a), first = sum(b, {0}), second = sum(a, {0});
  Value third = sum(x, {0});
  Grouping with = grouping();
  with.takes_sum = [&](const NodeGroup& group, int node) {
    return group.kind == Kind::rows && node == first.node;
  };
  std::map<Kind, std::vector<int>> found;
  for (const NodeGroup& group : group_nodes(graph, with)) found[group.kind] = group.nodes;
  EXPECT_EQ(found[Kind::rows], nodes_of({a, b, first}));
  EXPECT_EQ(found[Kind::bundle], nodes_of({second, third}));
}

// A single node of rows is a group where it takes a sum, and else none.
TEST_F(NodeGroups, ASumMakesASingleNodeAGroup) {
  Value a = layer_norm(x), s = sum(a, {0}), other = transpose(a, {1, 0}), b = layer_norm(other);
  Grouping with = grouping();
  with.bundle_kind = {};
  with.takes_sum = [&](const NodeGroup& group, int node) {
    return group.kind == Kind::rows && node == s.node;
  };
  std::vector<std::vector<int>> rows, singles;
  for (const NodeGroup& group : group_nodes(graph, with)) {
    (group.kind == Kind::rows ? rows : singles).push_back(group.nodes);
  }
  EXPECT_EQ(rows, (std::vector<std::vector<int>>{nodes_of({a, s})}));
  EXPECT_NE(std::ranges::find(singles, nodes_of({b})), singles.end());
}

}  // namespace
}  // namespace sigma1
