#include "sigma1/backend/reference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/backend/simulate.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/pointwise.h"

namespace sigma1 {
namespace {

TEST(Reference, AppliesAlpha) {
  Graph graph;
  Value x = graph.input("x", {{3}});
  Value y = relu(x);
  graph.node(y.node).alpha = 2;
  ReferenceResult result = run_reference(graph, {{"x", Tensor({3}, {-1, 0.5, 3})}});
  EXPECT_EQ(result[y].data, (std::vector<double>{0, 1, 6}));
}

TEST(Reference, DropoutDependsOnTheStepAlone) {
  Graph graph;
  Value x = graph.input("x", {{64}});
  Value y = dropout(x, 0.5, "drop");
  Bindings bindings{{"x", normal_tensor({64}, "x", 1)}};
  EXPECT_EQ(run_reference(graph, bindings, 3)[y].data, run_reference(graph, bindings, 3)[y].data);
  EXPECT_NE(run_reference(graph, bindings, 3)[y].data, run_reference(graph, bindings, 4)[y].data);
}

TEST(Reference, MistakesNameTheNode) {
  auto error_of = [](const Graph& graph, const Bindings& bindings) {
    try {
      run_reference(graph, bindings);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  Graph graph;
  Value table = graph.input("table", {{4, 2}}), ids = graph.input("ids", {{3}, Kind::index});
  Graph::Path path(graph, "embed");
  embedding(table, ids);
  Bindings bindings{{"table", Tensor({4, 2})}};
  EXPECT_NE(error_of(graph, bindings).find("ids has no value"), std::string::npos);
  bindings["ids"] = Tensor({2});
  EXPECT_NE(error_of(graph, bindings).find("expected shape [3], got [2]"), std::string::npos);
  bindings["ids"] = Tensor({3}, {0, 1, 4});
  EXPECT_NE(error_of(graph, bindings).find("embed/embedding"), std::string::npos);
}

// Keyed by name: adding a parameter elsewhere does not change the others.
TEST(Reference, ParametersStartAsTheirInitialisationSays) {
  Graph graph;
  graph.parameter("a", {50'000}, {"normal", 0.5});
  graph.parameter("b", {50'000}, {"uniform", 2});
  graph.parameter("c", {3}, {"constant", 0, 7});
  Bindings values = initial_parameters(graph, 1);
  EXPECT_NEAR(scale_of({&values["a"]}, Criterion::std_dev), 0.5, 0.01);
  EXPECT_NEAR(scale_of({&values["b"]}, Criterion::std_dev), 2, 0.02);
  for (double x : values["b"].data) ASSERT_LE(std::fabs(x), 2 * std::sqrt(3.0));
  EXPECT_EQ(values["c"].data, (std::vector<double>{7, 7, 7}));
  EXPECT_NE(values["a"].data[0], initial_parameters(graph, 2)["a"].data[0]);
  Graph other;
  other.parameter("before", {5}, {});
  other.parameter("a", {50'000}, {"normal", 0.5});
  EXPECT_EQ(initial_parameters(other, 1)["a"].data, values["a"].data);
}

}  // namespace
}  // namespace sigma1
