#include "sigma1/nn/residual.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/ops/pointwise.h"

namespace sigma1 {
namespace {

TEST(Residual, WeightsOfThePaper) {
  EXPECT_EQ(default_residual().skip, 1);
  EXPECT_EQ(default_residual().branch, 1);
  EXPECT_NEAR(fixed_residual(0.2).skip, std::sqrt(0.8), 1e-15);
  EXPECT_NEAR(fixed_residual(0.2).branch, std::sqrt(0.2), 1e-15);
  EXPECT_NEAR(running_mean_residual(3).skip, std::sqrt(3.0 / 4), 1e-15);
  EXPECT_NEAR(running_mean_residual(3).branch, std::sqrt(1.0 / 4), 1e-15);
  EXPECT_EQ(running_mean_residual(0).skip, 0);
}

// Blake et al. (2024): τᵢ = (L + i)^-½ where nothing is asked for.
TEST(Residual, WeightsOfUMup) {
  for (int64_t i = 0; i < 8; ++i) {
    ResidualWeights weights = u_mup_residual(i, 8);
    EXPECT_NEAR(weights.branch / weights.skip, 1 / std::sqrt(4.0 + static_cast<double>(i)), 1e-12);
    EXPECT_NEAR(std::hypot(weights.branch, weights.skip), 1, 1e-12);
  }
}

// What each layer has in the end, when all give unit variance: alike within a kind, attention's
// ratio times the others', and `multiplier` times what came in as a root mean square.
TEST(Residual, LayersOfUMupAddWhatTheMultipliersSay) {
  constexpr int64_t kLayers = 12;
  constexpr double kMultiplier = 1.5, kRatio = 0.4;
  double came_in = 1;
  std::vector<double> added;
  for (int64_t i = 0; i < kLayers; ++i) {
    ResidualWeights weights = u_mup_residual(i, kLayers, kMultiplier, kRatio);
    came_in *= weights.skip;
    for (double& each : added) each *= weights.skip;
    added.push_back(weights.branch);
  }
  double attention = 0, other = 0;
  for (size_t i = 0; i < kLayers; i += 2) {
    EXPECT_NEAR(added[i], added[0], 1e-12);
    EXPECT_NEAR(added[i + 1], added[1], 1e-12);
    attention += added[i] * added[i];
    other += added[i + 1] * added[i + 1];
  }
  EXPECT_NEAR(std::sqrt(attention / other), kRatio, 1e-12);
  EXPECT_NEAR(std::sqrt((attention + other) / 2) / came_in, kMultiplier, 1e-12);
}

TEST(Residual, RefusesWhatIsNoWeight) {
  for (double tau : {-0.1, 1.1, double{NAN}}) EXPECT_THROW(fixed_residual(tau), Error);
  EXPECT_THROW(running_mean_residual(-1), Error);
}

TEST(Residual, SplitAndJoinShareALabel) {
  Graph graph;
  Value x = graph.input("x", {{2, 3}});
  Value first = residual(x, fixed_residual(0.5), [](Value h) { return relu(h); });
  Value second = residual(first, fixed_residual(0.5), [](Value h) { return relu(h); });
  auto label = [&](int node) { return graph.node(node).attributes.get<std::string>("residual"); };
  EXPECT_EQ(label(1), label(first.node));
  EXPECT_EQ(label(first.node + 1), label(second.node));
  EXPECT_NE(label(first.node), label(second.node));
}

}  // namespace
}  // namespace sigma1
