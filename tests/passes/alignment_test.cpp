#include "sigma1/passes/alignment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/passes/unit_scaling.h"

namespace sigma1 {
namespace {

// x·W, bent, times V: the first product's input x is no cut edge, as it also goes around.
struct Layer {
  Graph graph;

  explicit Layer(Scheme scheme, const Alignment& alignment = {}) {
    Value x = graph.input("x", {{8, 4}});
    Value w = graph.parameter("w", {4, 16}, {});
    Value v = graph.parameter("v", {16, 4}, {});
    Value up = matmul(x, w);
    Value bent = gelu(up);
    Value down = matmul(bent, v);
    Value sum = add({x, down});
    Value targets = graph.input("targets", {{8}, Kind::index});
    graph.mark_output("loss", softmax_xent(sum, targets));
    set_alignment(graph, alignment);
    unit_scale(graph, ScalingOptions::of(scheme));  // proves gradients valid
  }

  const Node& at(const std::string& name) const {
    for (const Node& node : graph.nodes()) {
      if (node.name == name) return node;
    }
    throw std::out_of_range(name);
  }
};

Alignment with(const std::string& node, const char* setting, double value) {
  return {{}, {{node, {{setting, value}}}}};
}

TEST(Alignment, SetsWeightsAndSettingsOfNodesByName) {
  Graph graph;
  Value x = graph.input("x", {{2, 2}});
  Value bent = gelu(x);
  graph.mark_output("y", bent);
  set_alignment(graph, with("gelu", "multiplier", 0.25));
  set_alignment(graph, with("no such node", "multiplier", 4));
  EXPECT_EQ(graph.node(bent.node).attributes.get<double>("multiplier"), 0.25);
}

// The paper's compromise is made without it; a weight's own factor has nothing to do with it.
TEST(Alignment, AGainMultipliesWhatANodeGivesAndPassesBack) {
  Layer plain(Scheme::paper), louder(Scheme::paper, with("matmul", kGain, 3));
  const Node &before = plain.at("matmul"), &after = louder.at("matmul");
  EXPECT_DOUBLE_EQ(after.alpha, 3 * before.alpha);
  EXPECT_DOUBLE_EQ(after.beta[0], 3 * before.beta[0]);
  EXPECT_DOUBLE_EQ(after.beta[1], before.beta[1]);
  EXPECT_DOUBLE_EQ(louder.at("gelu").alpha, plain.at("gelu").alpha);
}

TEST(Alignment, TheExactSchemeKeepsGradientsBesideAGain) {
  Layer plain(Scheme::exact), louder(Scheme::exact, with("matmul", kGain, 3));
  EXPECT_DOUBLE_EQ(louder.at("matmul").alpha, 3 * plain.at("matmul").alpha);
  // A weight has one reader, so that its gradient is of unit scale whatever the forward factor.
  EXPECT_NEAR(louder.at("matmul").beta[1], plain.at("matmul").beta[1], 1e-12);
  EXPECT_NEAR(louder.at("matmul_2").beta[1], plain.at("matmul_2").beta[1], 1e-12);
}

TEST(Alignment, AParametersGradientIsASumOfWhatIsThere) {
  Layer plain(Scheme::paper), sparse(Scheme::paper, with("matmul", kGradientSquare, 0.25));
  EXPECT_DOUBLE_EQ(sparse.at("matmul").beta[1], 2 * plain.at("matmul").beta[1]);
  EXPECT_DOUBLE_EQ(sparse.at("matmul").beta[0], plain.at("matmul").beta[0]);
  EXPECT_DOUBLE_EQ(sparse.at("matmul").alpha, plain.at("matmul").alpha);
}

TEST(Alignment, ALossScalesAllGradients) {
  for (Scheme scheme : {Scheme::paper, Scheme::exact}) {
    Layer plain(scheme), louder(scheme, with("softmax_xent", kGradientGain, 5));
    EXPECT_NEAR(louder.at("softmax_xent").beta[0], 5 * plain.at("softmax_xent").beta[0],
                1e-9 * louder.at("softmax_xent").beta[0]);
    EXPECT_EQ(louder.at("softmax_xent").alpha, 1);
  }
}

}  // namespace
}  // namespace sigma1
