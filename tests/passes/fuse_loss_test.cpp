#include <gtest/gtest.h>

#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/verify.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/lowering.h"
#include "tests/models/training_graph.h"
#include "tests/passes/same_outputs.h"

namespace sigma1 {
namespace {

int count(const Graph& graph, const OpDef& op) {
  int found = 0;
  for (const Node& node : graph.nodes()) found += node.op == &op ? 1 : 0;
  return found;
}

int losses(const TrainingCase& each) {
  if (each.model == "mlp" || each.model == "ffn") return 0;
  return each.model.starts_with("bert") ? 2 : 1;
}

TEST(FuseLoss, GivesTheSameLossAndGradients) {
  for (const TrainingCase& each : training_cases()) {
    for (int scheme = 0; scheme < 3; ++scheme) {
      SCOPED_TRACE(each.name);
      Graph graph;
      build_training_graph(
          graph, each,
          scheme == 0 ? std::nullopt : std::optional(scheme == 1 ? Scheme::paper : Scheme::exact));
      // With the factors between loss and gradient, and without; what weighs losses is folded.
      if (scheme != 1 || losses(each) > 1) fold(graph);
      Bindings bindings = training_bindings(graph);
      Outputs before = outputs_of(graph, bindings);
      fuse_loss(graph);
      verify(graph);
      expect_same_outputs(outputs_of(graph, bindings), before, 1e-12);
      EXPECT_EQ(count(graph, softmax_xent_with_grad_op), losses(each));
      EXPECT_EQ(count(graph, softmax_xent_op) + count(graph, softmax_xent_grad_op), 0);
    }
  }
}

TEST(FuseLoss, NotWhereTheSeedIsAnInput) {
  for (const TrainingCase& each : training_cases()) {
    Graph graph;
    build_training_graph(graph, each, std::nullopt, true);
    fold(graph);
    fuse_loss(graph);
    EXPECT_EQ(count(graph, softmax_xent_with_grad_op), 0);
    EXPECT_EQ(count(graph, softmax_xent_grad_op), losses(each));
  }
}

// Two losses of different weight, one of them twice: no gradient goes to the wrong one.
TEST(FuseLoss, KeepsSeveralLossesApart) {
  Graph graph;
  Value w = graph.parameter("w", {5, 4}, {}), v = graph.parameter("v", {5, 4}, {});
  Value targets = graph.input("targets", {{5}, Kind::index});
  Value a = softmax_xent(w, targets), b = softmax_xent(v, targets, {}, LossReduction::mean);
  Value c = softmax_xent(w, targets), d = softmax_xent(w, targets, {}, LossReduction::mean);
  graph.node(a.node).alpha = 0.5;
  graph.mark_output("loss", weighted_add({a, b, c, d}, {2, 3, 5, 7}));
  mark_gradients(graph);
  Bindings bindings = training_bindings(graph);
  Outputs before = outputs_of(graph, bindings);
  fold(graph);
  fuse_loss(graph);
  verify(graph);
  expect_same_outputs(outputs_of(graph, bindings), before, 1e-12);
}

// A fixed loss scale is a seed that is not 1.
TEST(FuseLoss, TakesTheSeedsValue) {
  Graph graph;
  Value logits = graph.parameter("logits", {5, 4}, {});
  Value targets = graph.input("targets", {{5}, Kind::index});
  graph.mark_output("loss", softmax_xent(logits, targets));
  mark_gradients(graph);
  for (int i = 0; i < graph.size(); ++i) {
    if (graph.node(i).name != kGradientSeed) continue;
    graph.node(i).attributes.set("value", 256.0);
    graph.node(i).alpha = 3;
  }
  Bindings bindings = training_bindings(graph);
  Outputs before = outputs_of(graph, bindings);
  fuse_loss(graph);
  ASSERT_EQ(count(graph, softmax_xent_with_grad_op), 1);
  expect_same_outputs(outputs_of(graph, bindings), before, 1e-12);
}

TEST(FuseLoss, KeepsStorage) {
  Graph graph;
  Value logits = graph.parameter("logits", {5, 4}, {});
  Value targets = graph.input("targets", {{5}, Kind::index});
  graph.mark_output("loss", softmax_xent(logits, targets));
  mark_gradients(graph);
  fold(graph);
  lower_precision(graph, Precision::named("bf16"));
  fuse_loss(graph);
  remove_dead_nodes(graph);
  const Node& node = graph.node(graph.output("loss").node);
  ASSERT_EQ(node.op, &softmax_xent_with_grad_op);
  ASSERT_EQ(node.storage.size(), 2u);
  EXPECT_EQ(node.storage[0].format, find_format("fp32").format);
  EXPECT_EQ(node.storage[1].format, find_format("bf16").format);
  EXPECT_EQ(graph.size(), 3);  // the seed is gone
}

}  // namespace
}  // namespace sigma1
