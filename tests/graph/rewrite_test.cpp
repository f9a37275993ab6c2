#include "sigma1/graph/rewrite.h"

#include <gtest/gtest.h>

#include "sigma1/backend/reference.h"
#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/graph/verify.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

const OpDef* op_named(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes()) {
    if (node.name == name) return node.op;
  }
  return nullptr;
}

// Everything that a node carries, none at its default.
void build(Graph& graph) {
  Value x = graph.input("x", {{4}}), w = graph.parameter("w", {4}, {});
  Graph::Path path(graph, "block");
  std::vector<Value> halves = split(x, 0, 2);
  Value y = mul(x, w);
  Value z = scale(halves[1], 3);
  Node& node = graph.node(y.node);
  node.alpha = 2;
  node.beta = {5, 7};
  node.pinned = true;
  node.output_factors = {11};
  node.storage = {{find_format("e5m2").format, Rounding::stochastic, Overflow::infinity}};
  graph.mark_output("z", z);
  graph.mark_output("y", y);
}

TEST(Rewrite, ACopyIsTheSameGraph) {
  Graph graph, same;
  build(graph);
  build(same);
  rewrite(graph, [](Rewriter& rewriter, int node) { return rewriter.copy(node); });
  verify(graph);
  ASSERT_EQ(graph.size(), same.size());
  for (int i = 0; i < graph.size(); ++i) {
    const Node &a = graph.node(i), &b = same.node(i);
    SCOPED_TRACE(b.name);
    EXPECT_EQ(a.op, b.op);
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.attributes, b.attributes);
    EXPECT_EQ(a.outputs, b.outputs);
    EXPECT_EQ(a.alpha, b.alpha);
    EXPECT_EQ(a.beta, b.beta);
    EXPECT_EQ(a.pinned, b.pinned);
    EXPECT_EQ(a.output_factors, b.output_factors);
    EXPECT_EQ(a.storage, b.storage);
    ASSERT_EQ(a.inputs.size(), b.inputs.size());
    for (size_t k = 0; k < a.inputs.size(); ++k) {
      EXPECT_EQ(a.inputs[k].graph, &graph);
      EXPECT_EQ(a.inputs[k].node, b.inputs[k].node);
      EXPECT_EQ(a.inputs[k].output, b.inputs[k].output);
    }
  }
  ASSERT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(graph.outputs()[0].first, "z");
  EXPECT_EQ(graph.output("y").node, same.output("y").node);
}

TEST(Rewrite, ReadersAndOutputsFollowAReplacement) {
  Graph graph;
  Value x = graph.input("x", {{3}});
  Value bent = relu(x);
  Value twice = scale(bent, 2);
  graph.mark_output("bent", bent);
  graph.mark_output("twice", twice);
  rewrite(graph, [](Rewriter& rewriter, int node) -> std::vector<Value> {
    if (rewriter.old().node(node).op != &relu_op) return rewriter.copy(node);
    return {scale(rewriter.now(rewriter.old().node(node).inputs.front()), -1)};
  });
  verify(graph);
  ReferenceResult result = run_reference(graph, {{"x", Tensor({3}, {1, -2, 3})}});
  EXPECT_EQ(result[graph.output("bent")].data, (std::vector<double>{-1, 2, -3}));
  EXPECT_EQ(result[graph.output("twice")].data, (std::vector<double>{-2, 4, -6}));
}

TEST(Rewrite, ToReadWhatWasLeftOutIsABug) {
  Graph graph;
  Value x = graph.input("x", {{3}});
  relu(x);
  EXPECT_THROW(rewrite(graph,
                       [](Rewriter& rewriter, int node) {
                         return node == 0 ? std::vector<Value>{} : rewriter.copy(node);
                       }),
               Bug);
}

TEST(RemoveDeadNodes, KeepsWhatOutputsNeedAndTheSignature) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  graph.input("unread", {{2}});
  graph.parameter("unread_parameter", {2}, {});
  Value live = relu(x);
  Value dead = tanh(x);
  Value dead_end = scale(dead, 2);
  std::vector<Value> halves = split(live, 0, 2);  // only one is needed, and so the node
  graph.mark_output("half", halves[1]);
  EXPECT_EQ(graph.node(dead_end.node).inputs.front(), dead);
  remove_dead_nodes(graph);
  verify(graph);
  EXPECT_EQ(graph.size(), 5);
  EXPECT_EQ(op_named(graph, "unread"), &input_op);
  EXPECT_EQ(op_named(graph, "unread_parameter"), &parameter_op);
  EXPECT_EQ(op_named(graph, "tanh"), nullptr);
  EXPECT_EQ(op_named(graph, "scale"), nullptr);
  EXPECT_EQ(graph.output("half").output, 1);
}

TEST(CountUses, CountsReadersAndMarks) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  std::vector<Value> halves = split(x, 0, 2);
  mul(halves[1], halves[1]);
  relu(x);
  graph.mark_output("half", halves[1]);
  graph.mark_output("again", halves[1]);
  std::vector<std::vector<int>> uses = count_uses(graph);
  EXPECT_EQ(uses, (std::vector<std::vector<int>>{{2}, {0, 4}, {0}, {0}}));
}

}  // namespace
}  // namespace sigma1
