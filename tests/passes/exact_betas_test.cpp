#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/analysis/potentials.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/passes/unit_scaling.h"

namespace sigma1 {
namespace {

struct TwoBranches {
  Graph graph;
  Value x, product, bent;

  TwoBranches() {
    x = graph.input("x", {{8, 4}});
    Value w = graph.parameter("w", {4, 4}, {});
    product = matmul(x, w);
    bent = tanh(x);
    Value sum = add({product, bent});
    graph.mark_output("y", sum);
  }
};

// Two equal shares: each consumer's gradient is scaled so that their sum has unit scale.
TEST(ExactBetas, SharesOfSeveralConsumersAddUpToOne) {
  TwoBranches model;
  unit_scale(model.graph, ScalingOptions::of(Scheme::exact));
  const Node &product = model.graph.node(model.product.node),
             &bent = model.graph.node(model.bent.node);
  double ideal = 1 / std::sqrt(4.0);
  double beta_tanh = elementwise_scale(
                         [](double x) {
                           double t = std::tanh(x);
                           return Dual{t, 1 - t * t};
                         },
                         Criterion::rms)
                         .beta;
  double one = product.beta[0] / ideal, other = bent.beta[0] / beta_tanh;
  EXPECT_NEAR(one * one + other * other, 1, 1e-9);
}

TEST(ExactBetas, PinnedFactorsStayAndTheRestFollows) {
  TwoBranches model;
  Node& pinned = model.graph.node(model.bent.node);
  pinned.alpha = 1;
  pinned.beta = {1};
  pinned.pinned = true;
  unit_scale(model.graph, ScalingOptions::of(Scheme::exact));
  EXPECT_EQ(model.graph.node(model.bent.node).beta[0], 1);
  EXPECT_NO_THROW(check_gradients_valid(model.graph));
}

TEST(ExactBetas, ContradictingPinsAreRefused) {
  TwoBranches model;
  for (Value value : {model.product, model.bent}) model.graph.node(value.node).pinned = true;
  model.graph.node(model.bent.node).beta = {2};
  EXPECT_THROW(unit_scale(model.graph, ScalingOptions::of(Scheme::exact)), Error);
}

}  // namespace
}  // namespace sigma1
