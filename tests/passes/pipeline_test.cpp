#include "sigma1/passes/pipeline.h"

#include <gtest/gtest.h>

#include "sigma1/base/error.h"
#include "sigma1/nn/residual.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/passes/scaling.h"
#include "sigma1/passes/unit_scaling.h"

namespace sigma1 {
namespace {

TEST(Pipeline, StopsAfterTheNamedPassAndNamesTheGuilty) {
  Graph graph;
  Value x = graph.input("x", {{3}});
  relu(x);
  int runs = 0;
  std::vector<Pass> passes{{"one", [&](Graph&) { ++runs; }}, {"two", [&](Graph&) { ++runs; }}};
  EXPECT_EQ(run_passes(graph, passes, "one").size(), 1u);
  EXPECT_EQ(runs, 1);
  EXPECT_THROW(run_passes(graph, passes, "three"), Error);
  passes.push_back({"breaks", [](Graph& g) { g.node(1).alpha = -1; }});
  try {
    run_passes(graph, passes);
    FAIL() << "a broken graph passed";
  } catch (const Bug& bug) {
    EXPECT_NE(std::string(bug.what()).find("after pass breaks"), std::string::npos);
  }
}

TEST(UnitInit, MakesRandomParametersUnitAndLeavesConstants) {
  Graph graph;
  graph.parameter("w", {4}, {"normal", 0.02});
  graph.parameter("c", {4}, {"constant", 0, 1});
  unit_init(graph);
  EXPECT_EQ(graph.node(0).attributes.get<double>("std_dev"), 1);
  EXPECT_EQ(graph.node(1).attributes.get<double>("std_dev"), 0);
}

// A weight used inside a branch and outside it: the rewrite would make its gradient wrong.
TEST(ResidualPass, LeavesABranchThatSharesAParameterWithTheOutside) {
  for (bool shared : {false, true}) {
    Graph graph;
    Value x = graph.input("x", {{8, 4}});
    Value w = graph.parameter("w", {4, 4}, {});
    Value other = graph.parameter("v", {4, 4}, {});
    Value y = residual(x, fixed_residual(0.3), [&](Value h) { return matmul(h, w); });
    Value z = matmul(y, shared ? w : other);
    graph.mark_output("z", z);
    residual(graph);
    EXPECT_EQ(graph.node(y.node).pinned, !shared);
    EXPECT_NO_THROW(unit_scale(graph));
  }
}

TEST(IdealScales, ARuleThatRefusesIsNamedWithItsPath) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  Graph::Path path(graph, "block0");
  scale(x, 0);
  try {
    unit_scale(graph);
    FAIL() << "scaled what has no scale";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("block0/scale"), std::string::npos) << error.what();
  }
}

TEST(Names, OfSchemesAndMeans) {
  EXPECT_EQ(parse_scheme("exact"), Scheme::exact);
  EXPECT_EQ(parse_mean("to-output"), Mean::to_output);
  EXPECT_THROW(parse_scheme("best"), Error);
  EXPECT_THROW(parse_mean("median"), Error);
}

}  // namespace
}  // namespace sigma1
