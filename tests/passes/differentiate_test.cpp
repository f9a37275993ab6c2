#include "sigma1/passes/differentiate.h"

#include <gtest/gtest.h>

#include "sigma1/backend/reference.h"
#include "sigma1/base/error.h"
#include "sigma1/graph/verify.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

TEST(Differentiate, AppliesEachBetaOnce) {
  Graph graph;
  Value x = graph.input("x", {{3}});
  Value y = scale(x, 5);
  graph.node(y.node).alpha = 7;  // of the forward alone
  graph.node(y.node).beta = {2};
  Value loss = sum(y, {0});
  graph.node(loss.node).beta = {3};
  graph.mark_output("loss", loss);
  Gradients gradients = differentiate(graph, loss);
  verify(graph);
  ReferenceResult result = run_reference(graph, {{"x", Tensor({3}, {1, 2, 3})}});
  EXPECT_EQ(result[gradients.of(x)].data, std::vector<double>(3, 5 * 2 * 3.0));
}

TEST(Differentiate, SumsOverConsumersAndFillsUnusedOutputs) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  std::vector<Value> halves = split(x, 0, 2);  // the second half is not used
  Value twice = mul(halves[0], halves[0]);
  Value loss = sum(twice, {0});
  graph.mark_output("loss", loss);
  Gradients gradients = differentiate(graph, loss);
  ReferenceResult result = run_reference(graph, {{"x", Tensor({4}, {1, 2, 3, 4})}});
  EXPECT_EQ(result[gradients.of(x)].data, (std::vector<double>{2, 4, 0, 0}));
}

// Only a β on what an op hands on unchanged is marked: it weighs, and makes no scale.
TEST(Differentiate, MarksTheBetaOfAGradientThatIsPassedOn) {
  auto marked = [](bool passes, double beta) {
    Graph graph;
    Value x = graph.input("x", {{3}}), y = graph.input("y", {{3}});
    Value joined = passes ? add({x, y}) : mul(x, y);
    graph.node(joined.node).beta = {beta, 1};
    Value loss = sum(tanh(joined), {0});
    graph.mark_output("loss", loss);
    Gradients gradients = differentiate(graph, loss);
    const Node& gradient = graph.node(gradients.of(x).node);
    return gradient.attributes.get_or<bool>(kPassesGradient, false);
  };
  EXPECT_TRUE(marked(true, 0.5));
  EXPECT_FALSE(marked(true, 1));
  EXPECT_FALSE(marked(false, 0.5));
}

TEST(Differentiate, WithoutGradientThereIsNone) {
  Graph graph;
  Value x = graph.input("x", {{3}}), data = graph.input("data", {{3}}, false);
  Value product = mul(x, data);
  Value loss = sum(product, {0});
  graph.mark_output("loss", loss);
  Gradients gradients = differentiate(graph, loss);
  EXPECT_TRUE(gradients.of(x));
  EXPECT_FALSE(gradients.of(data));
}

TEST(Differentiate, WantsAMarkedScalar) {
  Graph graph;
  Value x = graph.input("x", {{3}});
  graph.mark_output("x", x);
  EXPECT_THROW(differentiate(graph, x), Error);
  Value loss = sum(x, {0});
  EXPECT_THROW(differentiate(graph, loss), Error);
}

}  // namespace
}  // namespace sigma1
