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
