// The examples that the paper works out by hand, to the digit: whoever doubts a factor finds it
// here.
#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/analysis/potentials.h"
#include "sigma1/base/error.h"
#include "sigma1/models/registry.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/passes/unit_scaling.h"

namespace sigma1 {
namespace {

const Node& node_named(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes()) {
    if (node.name == name) return node;
  }
  throw Error("no node {}", name);
}

void expect_factors(const Node& node, double alpha, const std::vector<double>& beta) {
  SCOPED_TRACE(node.name);
  EXPECT_DOUBLE_EQ(node.alpha, alpha);
  ASSERT_EQ(node.beta.size(), beta.size());
  for (size_t i = 0; i < beta.size(); ++i) EXPECT_DOUBLE_EQ(node.beta[i], beta[i]) << "input " << i;
}

constexpr int64_t kB = 25, kM = 16, kN = 81;

// Two projections of one x: X lies on a cycle, the weights do not.
const Node& scaled_projection(Graph& graph, const ScalingOptions& options) {
  Value x = graph.input("x", {{kB, kM}});
  Value w = graph.parameter("w", {kM, kN}, {}), other = graph.parameter("other", {kM, kN}, {});
  Value projection = matmul(x, w), second = matmul(x, other);
  graph.mark_output("y", add({projection, second}));
  unit_scale(graph, options);
  return graph.node(projection.node);
}

TEST(WorkedExamples, ProjectionOfSection4) {
  Graph graph;
  double shared = 1.0 / 6;  // (16 · 81)^-¼
  expect_factors(scaled_projection(graph, {}), shared, {shared, 1.0 / 5});
}

TEST(WorkedExamples, ProjectionOfAnInputThatIsCutIsNotConstrained) {
  Graph graph;
  Value x = graph.input("x", {{kB, kM}});
  Value w = graph.parameter("w", {kM, kN}, {});
  Value y = matmul(x, w);
  graph.mark_output("y", y);
  unit_scale(graph);
  expect_factors(graph.node(y.node), 1.0 / 4, {1.0 / 9, 1.0 / 5});
}

TEST(WorkedExamples, MeansOfOneQuarterAndOneNinth) {
  const std::pair<Mean, double> expected[] = {{Mean::geometric, 1.0 / 6},
                                              {Mean::arithmetic, 13.0 / 72},
                                              {Mean::harmonic, 2.0 / 13},
                                              {Mean::to_output, 1.0 / 4}};
  for (auto [mean, factor] : expected) {
    Graph graph;
    ScalingOptions options;
    options.mean = mean;
    expect_factors(scaled_projection(graph, options), factor, {factor, 1.0 / 5});
  }
}

TEST(WorkedExamples, GradientRepeatsMultiplyB) {
  Graph graph;
  ScalingOptions options;
  options.gradient_repeats = 4;
  expect_factors(scaled_projection(graph, options), 1.0 / 6, {1.0 / 6, 1.0 / 10});  // (25 · 4)^-½
}

// Appendix E.3: h*(x) = x + f*(x, α, β) with f(x) = x².
void build_square(Graph& graph, double alpha, double beta) {
  Value x = graph.input("x", {{3}});
  Value square = mul(x, x);
  Node& node = graph.node(square.node);
  node.alpha = alpha;
  node.beta = {beta, beta};
  graph.mark_output("y", add({x, square}));
}

TEST(WorkedExamples, SquareBesideItsInputIsRefusedByName) {
  Graph graph;
  build_square(graph, 2, 0.5);
  try {
    check_gradients_valid(graph);
    FAIL() << "alpha 2 and beta 0.5 were accepted";
  } catch (const Error& error) {
    std::string message = error.what();
    for (const char* part : {"x (input)", "mul (mul)", "add (add)", "is 4"}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
  }
}

TEST(WorkedExamples, SquareBesideItsInputIsAcceptedWithEqualFactors) {
  Graph graph;
  build_square(graph, 0.3, 0.3);
  EXPECT_NO_THROW(check_gradients_valid(graph));
}

// The code figure: residual, layer norm, up, gelu, down.
TEST(WorkedExamples, FeedForwardLayerOfTheCodeFigure) {
  ModelConfig config{.batch = 5, .time = 5, .width = 16, .hidden = 81, .tau = 0.2};
  Graph graph;
  build_model(graph, "ffn", config);
  unit_scale(graph);
  double rows = 1.0 / 5, projection = 1.0 / 6;
  expect_factors(node_named(graph, "identity"), 1, {std::sqrt(0.2)});
  expect_factors(node_named(graph, "norm/layer_norm"), 1, {1, rows, rows});
  expect_factors(node_named(graph, "ffn/up/matmul"), projection, {projection, rows});
  double gelu = std::sqrt(1.701 * 1.481);
  expect_factors(node_named(graph, "ffn/gelu"), gelu, {gelu});
  expect_factors(node_named(graph, "ffn/down/matmul"), projection, {projection, rows});
  expect_factors(node_named(graph, "weighted_add"), 1, {1, 1 / std::sqrt(0.2)});
  const auto& weights =
      node_named(graph, "weighted_add").attributes.get<std::vector<double>>("weights");
  EXPECT_EQ(weights, (std::vector<double>{std::sqrt(0.8), std::sqrt(0.2)}));
}

}  // namespace
}  // namespace sigma1
