#include "sigma1/analysis/potentials.h"

#include <gtest/gtest.h>

#include "sigma1/base/error.h"
#include "sigma1/nn/residual.h"
#include "sigma1/ops/pointwise.h"

namespace sigma1 {
namespace {

TEST(Potentials, FollowTheFactorsOfAChain) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  Value y = tanh(x);
  Value z = tanh(y);
  graph.node(y.node).alpha = 2;
  graph.node(y.node).beta = {6};
  graph.node(z.node).beta = {5};
  std::vector<double> s = solve_potentials(graph);
  // β = α s_u / s_v on each edge u → v.
  EXPECT_NEAR(s[0] / s[1], 6.0 / 2, 1e-12);
  EXPECT_NEAR(s[1] / s[2], 5.0, 1e-12);
}

// The paper's residual rewrite breaks α = β edge by edge and is valid as a pair.
TEST(Potentials, AcceptTheResidualRewrite) {
  Graph graph;
  Value x = graph.input("x", {{4}}), inside;
  residual(x, fixed_residual(0.3), [&](Value h) { return inside = tanh(h); });
  Node &split = graph.node(1), &join = graph.node(3);
  split.beta = {0.25};
  EXPECT_THROW(check_gradients_valid(graph), Error);
  join.beta = {1, 4};
  EXPECT_NO_THROW(check_gradients_valid(graph));
}

TEST(Potentials, RefusalNamesCycleOpsAndProduct) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  Graph::Path path(graph, "block0");
  Value y = tanh(x);
  Value z = mul(x, y);
  graph.node(z.node).beta[1] = 3;
  try {
    check_gradients_valid(graph);
    FAIL() << "accepted a graph with wrong gradients";
  } catch (const Error& error) {
    std::string text = error.what();
    for (const char* part :
         {"x (input)", "block0/tanh (tanh)", "block0/mul (mul)", "0.333333", " 3"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace sigma1
