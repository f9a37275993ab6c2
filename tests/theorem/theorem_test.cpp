// The paper's theorem, and the exact condition beyond it, on random graphs: what unit_scale
// compiles has gradients that are right up to one constant per tensor, and the checker knows right
// from wrong.
#include <gtest/gtest.h>

#include "sigma1/analysis/cut_edges.h"
#include "sigma1/analysis/potentials.h"
#include "sigma1/base/error.h"
#include "sigma1/base/rng.h"
#include "sigma1/passes/unit_scaling.h"
#include "tests/theorem/gradient_spread.h"
#include "tests/theorem/random_graph.h"

namespace sigma1 {
namespace {

constexpr uint64_t kFirstSeed = 1000, kGraphs = 500;
constexpr double kRight = 1e-6;  // spread of a right gradient
constexpr double kWrong = 1e-4;  // spread that a wrong one exceeds

bool is_accepted(const Graph& graph) {
  try {
    check_gradients_valid(graph);
    return true;
  } catch (const Error&) {
    return false;
  }
}

template <class Body>
void for_each_graph(Body body) {
  std::cout << "seeds " << kFirstSeed << " to " << kFirstSeed + kGraphs - 1 << "\n";
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kGraphs; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Graph graph;
    build_random_model(graph, seed);
    body(graph, random_bindings(graph, seed), seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

void expect_valid_under(const ScalingOptions& options) {
  for_each_graph([&](Graph& graph, const Bindings& bindings, uint64_t) {
    unit_scale(graph, options);
    ASSERT_LT(worst_gradient_spread(graph, bindings), kRight);
  });
}

TEST(Theorem, PaperSchemeHasValidGradients) {
  expect_valid_under(ScalingOptions::of(Scheme::paper));
}

TEST(Theorem, ExactSchemeHasValidGradients) {
  expect_valid_under(ScalingOptions::of(Scheme::exact));
}

TEST(Theorem, EveryMeanHasValidGradients) {
  for (Mean mean : {Mean::arithmetic, Mean::harmonic, Mean::to_output}) {
    ScalingOptions options;
    options.mean = mean;
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      Graph graph;
      build_random_model(graph, seed);
      unit_scale(graph, options);
      ASSERT_LT(worst_gradient_spread(graph, random_bindings(graph, seed)), kRight) << seed;
    }
  }
}

// Constraints left out: accepted exactly when the gradients are right.
TEST(Theorem, CheckerDecidesUnconstrainedGraphs) {
  int refused = 0;
  for_each_graph([&](Graph& graph, const Bindings& bindings, uint64_t) {
    ideal_scales(graph, {});
    double spread = worst_gradient_spread(graph, bindings);
    if (is_accepted(graph)) {
      ASSERT_LT(spread, kRight);
    } else {
      ++refused;
      ASSERT_GT(spread, kWrong);
    }
  });
  EXPECT_GT(refused, 250) << "too few of the random graphs have cycles";
}

// One factor changed: on a cycle it must be refused and wrong, on a cut edge accepted and right.
TEST(Theorem, CheckerFindsOneChangedFactor) {
  int on_cycle = 0, on_cut = 0;
  for_each_graph([&](Graph& graph, const Bindings& bindings, uint64_t seed) {
    unit_scale(graph, ScalingOptions::of(seed % 2 == 0 ? Scheme::paper : Scheme::exact));
    GradientEdges edges(graph);
    std::vector<bool> is_cut = cut_edges(graph, edges);
    size_t chosen = RandomStream(seed, "edge").bits(0) % edges.edges().size();
    const Edge& edge = edges.edges()[chosen];
    graph.node(edge.to).beta[static_cast<size_t>(edge.input)] *= 1.5;
    double spread = worst_gradient_spread(graph, bindings);
    ASSERT_EQ(is_accepted(graph), is_cut[chosen]);
    if (is_cut[chosen]) {
      ++on_cut;
      ASSERT_LT(spread, kRight);
    } else {
      ++on_cycle;
      ASSERT_GT(spread, kWrong);
    }
  });
  EXPECT_GT(on_cycle, 100);
  EXPECT_GT(on_cut, 100);
}

}  // namespace
}  // namespace sigma1
