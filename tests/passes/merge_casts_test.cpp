#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/graph/verify.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/passes/lowering.h"

namespace sigma1 {
namespace {

int count(const Graph& graph, const OpDef& op) {
  return static_cast<int>(std::ranges::count(graph.nodes(), &op, &Node::op));
}

// x is normalised and multiplied, in 8 bits.
struct Layer {
  Graph graph;
  Value normal, y;

  Layer() {
    Value x = graph.input("x", {{4, 16}});
    Value w = graph.parameter("w", {{16, 16}}, {});
    normal = layer_norm(x);
    y = matmul(normal, w);
    graph.mark_output("y", y);
  }
  void lower() {
    Precision precision;
    precision.activations = "fp16";
    precision.weights = "fp16";
    precision.matmul = "fp8";
    lower_precision(graph, precision);
  }
  const Node& norm() const { return *std::ranges::find(graph.nodes(), &layer_norm_op, &Node::op); }
};

TEST(MergeCasts, WhatOnlyACastReadsIsStoredAsItSays) {
  Layer layer;
  layer.lower();
  ASSERT_EQ(count(layer.graph, identity_op), 2);  // of the norm, and of w
  merge_casts(layer.graph);
  verify(layer.graph);
  EXPECT_EQ(count(layer.graph, identity_op), 1);
  EXPECT_EQ(layer.norm().storage.front(), product_cast("e4m3"));
}

TEST(MergeCasts, WhatOthersReadKeepsItsStorage) {
  Layer layer;
  layer.graph.mark_output("normal", layer.normal);
  layer.lower();
  merge_casts(layer.graph);
  EXPECT_EQ(count(layer.graph, identity_op), 2);
  EXPECT_EQ(layer.norm().storage.front(), storage_cast("fp16"));
}

TEST(MergeCasts, ProductsKeepTheirStorage) {
  Layer layer;
  Value again = layer.graph.parameter("again", {{16, 16}}, {});
  layer.graph.keep_outputs({});
  layer.graph.mark_output("z", matmul(layer.y, again));
  layer.lower();
  int before = count(layer.graph, identity_op);
  merge_casts(layer.graph);
  EXPECT_EQ(count(layer.graph, identity_op), before - 1);  // the norm's only
}

}  // namespace
}  // namespace sigma1
