// Appendix F: loss scaling, Glorot's initialisation and scaled attention are points of the same
// frame, and the passes that make unit scaling must give them to the digit.
#include "sigma1/passes/other_schemes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sigma1/analysis/potentials.h"
#include "sigma1/backend/reference.h"
#include "sigma1/base/error.h"
#include "sigma1/graph/verify.h"
#include "sigma1/models/registry.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/unit_scaling.h"

namespace sigma1 {
namespace {

constexpr uint64_t kSeed = 17;

struct Trained {
  double loss;
  std::vector<Tensor> gradients;
};

// The loss of a small model, and the gradient of each parameter, in one pass forward and back.
Trained gradients_of(Graph& graph, const ModelConfig& config) {
  Gradients gradients = differentiate(graph, graph.output("loss"));
  Bindings bindings = initial_parameters(graph, kSeed);
  Shape tokens{config.batch, config.time};
  bindings["tokens"] = index_tensor(tokens, config.vocabulary, "tokens", kSeed);
  bindings["targets"] = index_tensor(tokens, config.vocabulary, "targets", kSeed);
  ReferenceResult result = run_reference(graph, bindings);
  Trained trained{result[graph.output("loss")][0], {}};
  for (Value parameter : graph.parameters()) {
    trained.gradients.push_back(result[gradients.of(parameter)]);
  }
  return trained;
}

// The plain model, or a unit-scaled one, with its loss scaled; a scale of 0 leaves it alone.
Trained train_transformer(double scale, bool unit_scaled) {
  ModelConfig config{.batch = 2, .time = 3, .width = 8, .hidden = 12, .vocabulary = 10};
  Graph graph;
  build_model(graph, "transformer", config);
  if (unit_scaled) unit_scale(graph);
  if (scale > 0) loss_scale(graph, scale);
  verify(graph);
  check_gradients_valid(graph);
  return gradients_of(graph, config);
}

void expect_scaled_by(double scale, bool unit_scaled, double tolerance) {
  std::cout << "seed " << kSeed << "\n";
  Trained plain = train_transformer(0, unit_scaled), scaled = train_transformer(scale, unit_scaled);
  EXPECT_EQ(scaled.loss, plain.loss);
  ASSERT_EQ(scaled.gradients.size(), plain.gradients.size());
  ASSERT_GT(plain.gradients.size(), 10u);
  for (size_t i = 0; i < plain.gradients.size(); ++i) {
    for (int64_t j = 0; j < plain.gradients[i].count(); ++j) {
      double expected = scale * plain.gradients[i][j];
      ASSERT_NEAR(scaled.gradients[i][j], expected, tolerance * std::fabs(expected)) << i;
    }
  }
}

// Powers of two commute with rounding: not one bit may differ.
TEST(LossScaling, MultipliesEveryParameterGradientExactly) {
  expect_scaled_by(1024, false, 0);
  expect_scaled_by(0x1p-8, true, 0);
}

TEST(LossScaling, MultipliesByAnyScale) { expect_scaled_by(1000, false, 1e-10); }

TEST(LossScaling, OutlivesUnitScaling) {
  for (Scheme scheme : {Scheme::paper, Scheme::exact}) {
    Graph graph;
    build_model(graph, "mlp", {});
    loss_scale(graph, 512);
    unit_scale(graph, ScalingOptions::of(scheme));
    const Node& node = graph.node(graph.output("loss").node);
    EXPECT_EQ(node.alpha, 1);
    EXPECT_EQ(node.beta, std::vector<double>{512});
  }
}

TEST(LossScaling, RefusesWhatItCannotScale) {
  Graph graph;
  Value x = graph.input("x", {{3}});
  EXPECT_THROW(loss_scale(graph, 2), Error);
  graph.mark_output("loss", x);
  EXPECT_THROW(loss_scale(graph, 2), Error);
  Graph good;
  build_model(good, "mlp", {});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double scale : {0.0, -2.0, kInfinity, std::nan("")}) {
    EXPECT_THROW(loss_scale(good, scale), Error);
  }
}

double std_dev_of(Value parameter) {
  return parameter.graph->node(parameter.node).attributes.get<double>("std_dev");
}

TEST(GlorotScaling, PutsTheMeanVarianceIntoTheWeights) {
  constexpr int64_t kRows = 7, kM = 30, kN = 20;
  Graph graph;
  Value x = graph.input("x", {{kRows, kM}});
  Value w = graph.parameter("w", {kM, kN}, {"normal", 0.5});
  Value bias = graph.parameter("bias", {kN}, {"constant", 0, 0});
  Value y = linear(x, w, bias);
  Value back = graph.parameter("back", {5, kN}, {"uniform", 0.5});
  Value narrow = matmul(y, back, {false, true});
  Value gain = graph.parameter("gain", {5}, {"normal", 0.5});
  graph.mark_output("y", mul(narrow, gain));
  glorot_scaling(graph);
  EXPECT_DOUBLE_EQ(std_dev_of(w), std::sqrt(2.0 / (kM + kN)));
  EXPECT_DOUBLE_EQ(std_dev_of(back), std::sqrt(2.0 / (kN + 5)));
  EXPECT_EQ(std_dev_of(bias), 0);
  EXPECT_EQ(std_dev_of(gain), 0.5) << "only weights of a product are Glorot's";
  for (const Node& node : graph.nodes()) {
    EXPECT_EQ(node.alpha, 1) << node.name;
    for (double beta : node.beta) EXPECT_EQ(beta, 1) << node.name;
  }
}

// A = Q Kᵀ with both on a cycle, since both come from one x, and only the output's scale heeded.
TEST(AttentionScaling, IsTheFullyConstrainedProductToItsOutput) {
  constexpr int64_t kTime = 6, kD = 16;
  Graph graph;
  Value x = graph.input("x", {{kTime, 9}});
  Value wq = graph.parameter("wq", {9, kD}, {}), wk = graph.parameter("wk", {9, kD}, {});
  Value q = matmul(x, wq), k = matmul(x, wk);
  Value similarity = matmul(q, k, {false, true});
  graph.mark_output("similarity", similarity);
  ideal_scales(graph, {});
  constrain(graph, Mean::to_output);
  const Node& node = graph.node(similarity.node);
  EXPECT_DOUBLE_EQ(node.alpha, 1 / std::sqrt(static_cast<double>(kD)));
  EXPECT_EQ(node.beta, (std::vector<double>{node.alpha, node.alpha}));
  check_gradients_valid(graph);
}

}  // namespace
}  // namespace sigma1
