#include "sigma1/analysis/scaling_cost.h"

#include <gtest/gtest.h>

#include "sigma1/graph/rewrite.h"
#include "sigma1/nn/residual.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/passes/lowering.h"
#include "tests/models/training_graph.h"

namespace sigma1 {
namespace {

constexpr int kBytes = 2;
using Names = std::vector<std::string>;

// x[4, 3] · w[3, 5] + c[5] against a target.
Value build_linear_layer(Graph& graph) {
  Value x = graph.input("x", {{4, 3}}, false), w = graph.parameter("w", {3, 5}, {}),
        c = graph.parameter("c", {5}, {}), target = graph.input("target", {{4, 5}}, false);
  Value y = linear(x, w, c), loss = mse(y, target);
  graph.mark_output("loss", loss);
  return y;
}

void build_scaled_linear_layer(Graph& graph) {
  Value y = build_linear_layer(graph);
  graph.node(y.node).alpha = 0.5;
  graph.node(y.node).beta = {7, 0.25, 0.125};  // 7 is not used: x carries no gradient
  graph.node(graph.output("loss").node).beta = {3, 1};
}

TEST(ScalingCost, OfALinearLayer) {
  Graph graph;
  build_scaled_linear_layer(graph);
  mark_gradients(graph);
  remove_dead_nodes(graph);
  int64_t y = 4 * 5, dy = 4 * 5, dw = 3 * 5, dc = 5;
  ScalingCost separate = cost_of_separate_factors(graph, kBytes);
  EXPECT_EQ(separate.factors, 4);
  EXPECT_EQ(separate.multiplications, y + dy + dw + dc);
  EXPECT_EQ(separate.bytes, 2 * kBytes * (y + dy + dw + dc));
  EXPECT_EQ(separate.passes, (Names{"linear", "grad/mse/identity", "grad/linear/identity",
                                    "grad/linear/identity_2"}));
  fold(graph);
  ScalingCost folded = cost_of_folded_factors(graph, kBytes);
  EXPECT_EQ(folded.in_products, y + dw);
  EXPECT_EQ(folded.bytes, 0);
  EXPECT_TRUE(folded.passes.empty());
}

TEST(ScalingCost, OfAPlainLayerIsTheLossesAlone) {
  Graph graph;
  build_linear_layer(graph);
  mark_gradients(graph);
  remove_dead_nodes(graph);
  EXPECT_EQ(cost_of_separate_factors(graph, kBytes).factors, 0);
  fold(graph);
  EXPECT_EQ(cost_of_folded_factors(graph, kBytes).in_products, 0);
}

// Split and join: the branch's γ in the split's gradient, 1/γ in the join's, none forward.
TEST(ScalingCost, OfAResidual) {
  Graph graph;
  Value x = graph.parameter("x", {6, 2}, {}), target = graph.input("target", {{6, 2}}, false);
  Value y = residual(x, fixed_residual(0.2), [](Value h) { return identity(h); });
  graph.mark_output("loss", mse(y, target));
  unit_scale(graph);
  mark_gradients(graph);
  remove_dead_nodes(graph);
  ScalingCost separate = cost_of_separate_factors(graph, kBytes);
  EXPECT_EQ(separate.passes,
            (Names{"grad/mse/identity", "grad/weighted_add/identity", "grad/identity/identity"}));
  EXPECT_EQ(separate.multiplications, 3 * 12);
  fold(graph);
  EXPECT_EQ(cost_of_folded_factors(graph, kBytes).bytes, 0);
}

// Of rows × width and width × hidden, by the ops of the paper's first figure.
TEST(ScalingCost, OfTheFeedForwardLayer) {
  TrainingCase ffn{"ffn", "ffn", {.batch = 3, .time = 5, .width = 4, .hidden = 8}};
  Graph graph, plain;
  build_training_graph(graph, ffn, Scheme::paper);
  build_training_graph(plain, ffn);
  remove_dead_nodes(graph);
  int64_t rows = 15, width = 4, hidden = 8;
  int64_t up = rows * hidden, down = rows * width, matrix = width * hidden;
  int64_t forward = up + up + down;                // up, gelu, down
  int64_t backward = down + down + up + up + down  // loss, join, down, gelu, up
                     + 2 * matrix + 2 * width;     // weights, and the norm's gain and bias
  ScalingCost separate = cost_of_separate_factors(graph, kBytes);
  EXPECT_EQ(separate.factors, 12);
  EXPECT_EQ(separate.multiplications, forward + backward);
  fold(graph);
  fold(plain);
  ScalingCost folded = cost_of_folded_factors(graph, kBytes),
              regular = cost_of_folded_factors(plain, kBytes);
  EXPECT_EQ(folded.bytes, 0);
  EXPECT_EQ(folded.in_products, up + down + up + down + 2 * matrix);
  EXPECT_LT(folded.multiplications, separate.multiplications + regular.multiplications);
}

TEST(ScalingCost, NothingIsMovedForItInAnyModel) {
  for (const TrainingCase& each : training_cases()) {
    for (Scheme scheme : {Scheme::paper, Scheme::exact}) {
      Graph graph;
      build_training_graph(graph, each, scheme);
      remove_dead_nodes(graph);
      ScalingCost separate = cost_of_separate_factors(graph, kBytes);
      EXPECT_EQ(separate.bytes, 2 * kBytes * separate.multiplications);
      fold(graph);
      EXPECT_EQ(cost_of_folded_factors(graph, kBytes).passes, Names{}) << each.name;
    }
  }
}

TEST(ScalingCost, WhatCannotBeFoldedIsNamed) {
  Graph graph;
  Value x = graph.input("x", {{3, 2}});
  Value twice = scale(x, 2);
  graph.mark_output("bent", tanh(twice));
  graph.mark_output("thrice", scale(twice, 1.5));
  fold(graph);
  ScalingCost cost = cost_of_folded_factors(graph, 4);
  EXPECT_EQ(cost.passes, (Names{"scale", "scale_2"}));
  EXPECT_EQ(cost.multiplications, 2 * 6);
  EXPECT_EQ(cost.bytes, 2 * 2 * 4 * 6);
}

// A view of something else's numbers, at another scale.
TEST(ScalingCost, AScaledReshapeIsACopy) {
  Graph graph;
  Value bent = tanh(graph.input("x", {{3, 2}}));
  Value flat = reshape(bent, {6});
  graph.node(flat.node).alpha = 0.5;
  graph.mark_output("bent", bent);
  graph.mark_output("flat", flat);
  fold(graph);
  ScalingCost cost = cost_of_folded_factors(graph, kBytes);
  EXPECT_EQ(cost.passes, Names{"reshape"});
  EXPECT_EQ(cost.bytes, 2 * kBytes * 6);
}

TEST(ScalingCost, WeightsOfASumAreMultiplications) {
  Graph graph;
  Value x = graph.input("x", {{3, 2}}), y = graph.input("y", {{3, 2}});
  Value sum = weighted_add({x, y, scale(y, 2)}, {1, 1, 0.75});
  graph.mark_output("sum", sum);
  graph.node(sum.node).alpha = 1 + 1e-12;  // 1 in fp32
  fold(graph);
  ScalingCost cost = cost_of_folded_factors(graph, kBytes);
  EXPECT_EQ(cost.factors, 1);
  EXPECT_EQ(cost.multiplications, 6);
  EXPECT_EQ(cost.bytes, 0);
}

TEST(PaperEstimate, OfALinearLayer) {
  Graph graph;
  build_scaled_linear_layer(graph);
  PaperEstimate estimate = paper_estimate(graph, 3);
  EXPECT_DOUBLE_EQ(estimate.by_product_sizes, (1.0 / 4 + 1.0 / 3 + 1.0 / 5) / 6);
  EXPECT_EQ(estimate.scaled_ops, 2);  // the loss is one
  EXPECT_EQ(estimate.products, 1);
  EXPECT_DOUBLE_EQ(estimate.by_hidden_size(), 2.0 / (2 * 3));
}

// The sum of both products' rescaling over the sum of their FLOPs.
TEST(PaperEstimate, WeighsProductsByTheirSize) {
  Graph graph;
  Value x = graph.input("x", {{4, 3}}), v = graph.parameter("v", {3, 10}, {}),
        w = graph.parameter("w", {10, 2}, {});
  graph.mark_output("y", matmul(matmul(x, v), w));
  double rescaling = (4 * 3 + 3 * 10 + 4 * 10) + (4 * 10 + 10 * 2 + 4 * 2),
         products = 6 * 4 * 3 * 10 + 6 * 4 * 10 * 2;
  EXPECT_DOUBLE_EQ(paper_estimate(graph, 3).by_product_sizes, rescaling / products);
}

TEST(PaperEstimate, OfBertLargeIsTheirs) {
  PaperEstimate bert{.scaled_ops = 4, .products = 1, .hidden_size = 1024};
  EXPECT_NEAR(bert.by_hidden_size(), 0.002, 0.0001);
}

}  // namespace
}  // namespace sigma1
