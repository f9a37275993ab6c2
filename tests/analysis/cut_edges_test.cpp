#include "sigma1/analysis/cut_edges.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/nn/residual.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"

namespace sigma1 {
namespace {

// Whether input `input` of the node that made `value` is a cut edge; fails when it has no gradient.
bool is_cut(const Graph& graph, Value value, size_t input) {
  GradientEdges edges(graph);
  int edge = edges.index_of(value.node, input);
  EXPECT_GE(edge, 0);
  return cut_edges(graph, edges)[static_cast<size_t>(edge)];
}

TEST(CutEdges, ChainsAreCutAndResidualsAreNot) {
  Graph graph;
  Value x = graph.input("x", {{4, 4}});
  Value w = graph.parameter("w", {4, 4}, {});
  Value before = relu(x);
  Value inside;
  Value joined =
      residual(before, fixed_residual(0.5), [&](Value h) { return inside = matmul(h, w); });
  Value after = relu(joined);
  EXPECT_TRUE(is_cut(graph, before, 0));
  EXPECT_TRUE(is_cut(graph, after, 0));
  EXPECT_FALSE(is_cut(graph, inside, 0));
  EXPECT_TRUE(is_cut(graph, inside, 1)) << "a weight used once";
  EXPECT_FALSE(is_cut(graph, joined, 0));
  EXPECT_FALSE(is_cut(graph, joined, 1));
}

TEST(CutEdges, ParallelEdgesAreACycle) {
  Graph graph;
  Value x = graph.input("x", {{4, 4}});
  Value square = mul(x, x);
  EXPECT_FALSE(is_cut(graph, square, 0));
  EXPECT_FALSE(is_cut(graph, square, 1));
}

TEST(CutEdges, SharedParameterClosesACycle) {
  Graph graph;
  Value x = graph.input("x", {{4, 4}});
  Value w = graph.parameter("w", {4, 4}, {});
  Value one = matmul(x, w);
  Value two = matmul(one, w);
  EXPECT_TRUE(is_cut(graph, one, 0));
  EXPECT_FALSE(is_cut(graph, two, 0));
  EXPECT_FALSE(is_cut(graph, one, 1));
}

// A mask or token input shared by all layers would tie the model together if it counted.
TEST(CutEdges, EdgesWithoutGradientDoNotCount) {
  Graph graph;
  Value ids = graph.input("ids", {{2, 3}, Kind::index});
  Value table = graph.parameter("table", {7, 4}, {}), other = graph.parameter("other", {7, 4}, {});
  Value one = embedding(table, ids);
  Value two = embedding(other, ids);
  Value sum = add({one, two});
  EXPECT_TRUE(is_cut(graph, sum, 0));
  EXPECT_TRUE(is_cut(graph, one, 0));
  EXPECT_FALSE(GradientEdges(graph).contains(one.node, 1));
}

TEST(CutEdges, BranchesThatReachNoOutputDoNotCount) {
  Graph graph;
  Value x = graph.input("x", {{4, 4}});
  Value y = relu(x);
  Value metric = mul(x, y);
  graph.mark_output("y", y);
  EXPECT_TRUE(is_cut(graph, y, 0));
  EXPECT_FALSE(GradientEdges(graph).contains(metric.node, 0));
}

// 100,000 nodes in a chain of residuals: deep enough to overflow any recursion, and quadratic work
// would not end.
TEST(CutEdges, LargeGraph) {
  Graph graph;
  Value x = graph.input("x", {{1, 1}});
  for (int i = 0; i < 25'000; ++i) {
    x = residual(x, fixed_residual(0.5), [](Value h) { return tanh(h); });
    x = relu(x);
  }
  GradientEdges edges(graph);
  std::vector<bool> cut = cut_edges(graph, edges);
  EXPECT_EQ(graph.size(), 100'001);
  EXPECT_EQ(std::ranges::count(cut, true), 25'000);
}

}  // namespace
}  // namespace sigma1
