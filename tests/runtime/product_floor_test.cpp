#include "sigma1/runtime/product_floor.h"

#include <gtest/gtest.h>

#include "sigma1/analysis/matrix_products.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"

namespace sigma1 {
namespace {

// A layer of each kind that multiplies, and one that does not.
void build(Graph& graph) {
  Value x = graph.input("x", {{2, 6, 8}});
  Value w = graph.parameter("w", {8, 8}, {});
  Value q = relu(matmul(x, w));
  Value k = matmul(x, w);
  graph.mark_output("y", attention(q, k, x, {.heads = 2}));
  for (int i = 0; i < graph.size(); ++i) graph.node(i).storage = {Cast{find_format("fp16").format}};
}

TEST(ProductFloor, HasTheProductsOfTheGraphAndNothingElse) {
  Graph graph;
  build(graph);
  std::shared_ptr<Graph> alone = products_alone(graph);
  EXPECT_EQ(product_flops(*alone), product_flops(graph));
  int operands = 0, products = 0;
  for (const Node& node : alone->nodes()) {
    ++(node.op == &matmul_op ? products : operands);
    ASSERT_EQ(node.storage.size(), 1U);
    EXPECT_EQ(node.storage[0].format, find_format("fp16").format) << node.name;
  }
  EXPECT_EQ(products, 4);  // two of weights, scores, and the sum of values
  EXPECT_EQ(operands, 5);  // the first two share both, the others one
  EXPECT_EQ(alone->outputs().size(), 1U);
}

TEST(ProductFloor, ReadsNumbersOf8BitsSideBySideAndThoseOfAttentionIn16) {
  Graph graph;
  build(graph);
  for (int i = 0; i < graph.size(); ++i) graph.node(i).storage = {Cast{find_format("e4m3").format}};
  std::shared_ptr<Graph> alone = products_alone(graph);
  EXPECT_EQ(product_flops(*alone), product_flops(graph));
  int turned = 0;
  for (const Node& node : alone->nodes()) {
    if (node.op != &matmul_op) continue;
    bool is_many = node.inputs[0].type().rank() > 2;
    const Cast& read = alone->node(node.inputs[0].node).storage[0];
    EXPECT_EQ(read.format, find_format(is_many ? "fp16" : "e4m3").format);
    turned += node.attributes.get<bool>("transpose_right");
  }
  EXPECT_EQ(turned, 2);
}

// Also behind the numbers that are drawn, and where the last ones do not fit.
TEST(ProductFloor, MultipliesNormalNumbers) {
  for (const char* format : {"fp32", "fp16", "e4m3"}) {
    Store store;
    store.create("x", {Shape{3, 100'003}}, Cast{find_format(format).format});
    write_normal_numbers(store, "x");
    std::vector<float> x = store.read("x");
    double sum = 0, square = 0, last = 0;
    for (float each : x) sum += each;
    for (float each : x) square += each * each;
    for (size_t i = x.size() - 1000; i < x.size(); ++i) last += x[i] * x[i];
    auto count = static_cast<double>(x.size());
    EXPECT_NEAR(sum / count, 0, 0.01) << format;
    EXPECT_NEAR(square / count, 1, 0.01) << format;
    EXPECT_NEAR(last / 1000, 1, 0.2) << format;
  }
}

TEST(ProductFloor, RunsOnADevice) {
  Graph graph;
  build(graph);
  ProductFloor floor(graph, cpu_device());
  floor.run();
  floor.run();
  floor.finish();
}

}  // namespace
}  // namespace sigma1
