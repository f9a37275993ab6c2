#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/sources.h"
#include "sigma1/graph/storage.h"
#include "sigma1/graph/verify.h"
#include "sigma1/ops/cast.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/shape.h"
#include "sigma1/passes/lowering.h"

namespace sigma1 {
namespace {

int count(const Graph& graph, const OpDef& op) {
  return static_cast<int>(std::ranges::count(graph.nodes(), &op, &Node::op));
}

Precision precision_of(const char* matmul) {
  Precision precision;
  precision.activations = precision.weights = "fp16";
  precision.matmul = matmul;
  return precision;
}

TEST(KeepWeightCasts, CastsOfParametersBecomeInputsAndOthersStay) {
  Graph graph;
  Value x = graph.input("x", {{4, 16}}), w = graph.parameter("w", {{16, 16}}, {});
  graph.mark_output("y", matmul(matmul(x, w), w));
  lower_precision(graph, precision_of("e4m3"));
  ASSERT_EQ(count(graph, identity_op), 3) << "of x, of the first product, and of w once";
  std::vector<WeightCopy> copies = keep_weight_casts(graph);
  verify(graph);
  EXPECT_EQ(count(graph, identity_op), 2);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].parameter, "w");
  EXPECT_EQ(copies[0].name, "w/as_e4m3");
  EXPECT_EQ(copies[0].shape, (Shape{16, 16}));
  EXPECT_EQ(copies[0].cast, product_cast("e4m3"));
  auto input = std::ranges::find(graph.nodes(), "w/as_e4m3", &Node::name);
  ASSERT_NE(input, graph.nodes().end());
  EXPECT_EQ(input->op, &input_op);
  EXPECT_EQ(storage(*input, 0), product_cast("e4m3"));
  EXPECT_EQ(graph.parameters().size(), 1U) << "the graph is still of this model";
  EXPECT_TRUE(parameters_read(graph).empty());
}

TEST(KeepWeightCasts, AReshapeReadsTheCopy) {
  Graph graph;
  Value x = graph.input("x", {{4, 16}}), w = graph.parameter("w", {{2, 8, 16}}, {});
  graph.mark_output("y", matmul(x, reshape(w, {16, 16})));
  lower_precision(graph, precision_of("e4m3"));
  remove_dead_nodes(graph);  // the reshape of the parameter itself
  std::vector<WeightCopy> copies = keep_weight_casts(graph);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].shape, (Shape{2, 8, 16}));
  EXPECT_TRUE(parameters_read(graph).empty());
}

TEST(KeepWeightCasts, EveryFormatIsACopyOfItsOwn) {
  Graph graph;
  Value x = graph.input("x", {{4, 16}}), w = graph.parameter("w", {{16, 16}}, {});
  graph.mark_output("y", matmul(matmul(x, w), w));
  Precision precision = precision_of("e4m3");
  precision.overrides = {{"matmul_2", "e5m2"}};
  lower_precision(graph, precision);
  std::vector<WeightCopy> copies = keep_weight_casts(graph);
  ASSERT_EQ(copies.size(), 2U);
  EXPECT_EQ(copies[0].name, "w/as_e4m3");
  EXPECT_EQ(copies[1].name, "w/as_e5m2");
}

TEST(KeepWeightCasts, WhatIsAlsoReadAsItIsStoredIsSeen) {
  Graph graph;
  Value tokens = graph.input("tokens", {{4}, Kind::index});
  Value w = graph.parameter("w", {{16, 16}}, {}), b = graph.parameter("b", {{16}}, {});
  graph.mark_output("y", linear(embedding(w, tokens), w, b));
  lower_precision(graph, precision_of("e4m3"));
  EXPECT_EQ(keep_weight_casts(graph).size(), 1U);
  EXPECT_EQ(parameters_read(graph), (std::set<std::string>{"b", "w"}));
}

TEST(KeepWeightCasts, ScalesFoundAtRunTimeStay) {
  Graph graph;
  Value x = graph.input("x", {{4, 16}}), w = graph.parameter("w", {{16, 16}}, {});
  graph.mark_output("y", matmul(x, w));
  Precision precision = precision_of("e4m3");
  precision.scaling = CastScaling::current;
  lower_precision(graph, precision);
  EXPECT_TRUE(keep_weight_casts(graph).empty());
  EXPECT_EQ(count(graph, scaled_cast_op), 2);
}

TEST(KeepWeightCasts, WithoutCastsNothingChanges) {
  Graph graph;
  Value x = graph.input("x", {{4, 16}}), w = graph.parameter("w", {{16, 16}}, {});
  graph.mark_output("y", matmul(x, w));
  lower_precision(graph, precision_of("stored"));
  int before = graph.size();
  EXPECT_TRUE(keep_weight_casts(graph).empty());
  EXPECT_EQ(graph.size(), before);
  EXPECT_EQ(parameters_read(graph), std::set<std::string>{"w"});
}

}  // namespace
}  // namespace sigma1
