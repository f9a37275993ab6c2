#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sigma1/graph/verify.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/lowering.h"
#include "tests/models/training_graph.h"
#include "tests/passes/same_outputs.h"
#include "tests/theorem/random_graph.h"

namespace sigma1 {
namespace {

int count_scalers(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes()) {
    count += node.op == &identity_op || node.op == &scale_op ? 1 : 0;
  }
  return count;
}

void expect_same_when_folded(Graph& graph, const Bindings& bindings) {
  Outputs before = outputs_of(graph, bindings);
  int scalers = count_scalers(graph), size = graph.size();
  fold(graph);
  verify(graph);
  expect_same_outputs(outputs_of(graph, bindings), before, 1e-12);
  EXPECT_EQ(size - graph.size(), scalers - count_scalers(graph));
}

TEST(Fold, KeepsRandomModels) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (int scheme = 0; scheme < 3; ++scheme) {
      SCOPED_TRACE(seed);
      Graph graph;
      build_random_model(graph, seed);
      if (scheme > 0) {
        unit_scale(graph, ScalingOptions::of(scheme == 1 ? Scheme::paper : Scheme::exact));
      }
      mark_gradients(graph);
      expect_same_when_folded(graph, random_bindings(graph, seed));
    }
  }
}

TEST(Fold, KeepsEveryModel) {
  for (const TrainingCase& each : training_cases()) {
    for (std::optional<Scheme> scheme :
         {std::optional<Scheme>(), std::optional(Scheme::paper), std::optional(Scheme::exact)}) {
      SCOPED_TRACE(each.name);
      Graph graph;
      build_training_graph(graph, each, scheme);
      expect_same_when_folded(graph, training_bindings(graph));
    }
  }
}

// Unit scaling costs nothing: none of its factors is left as a node of its own.
TEST(Fold, LeavesNoNodeThatOnlyScales) {
  for (const TrainingCase& each : training_cases()) {
    for (int scheme = 0; scheme < 3; ++scheme) {
      Graph graph;
      build_training_graph(
          graph, each,
          scheme == 0 ? std::nullopt : std::optional(scheme == 1 ? Scheme::paper : Scheme::exact));
      fold(graph);
      EXPECT_EQ(count_scalers(graph), 0) << each.name << ", scheme " << scheme;
    }
  }
}

// A factor that cancels leaves 1 − 1e-16 behind, too.
TEST(Fold, LeavesNoReshapeWithAFactor) {
  for (const TrainingCase& each : training_cases()) {
    for (int scheme = 0; scheme < 3; ++scheme) {
      Graph graph;
      build_training_graph(
          graph, each,
          scheme == 0 ? std::nullopt : std::optional(scheme == 1 ? Scheme::paper : Scheme::exact));
      fold(graph);
      for (const Node& node : graph.nodes()) {
        EXPECT_TRUE(node.op != &reshape_op || node.factor(0) == 1)
            << each.name << ": " << node.name;
      }
    }
  }
}

TEST(Fold, FactorsOfAChainAreMultiplied) {
  Graph graph;
  Value x = graph.input("x", {{3}});
  Value bent = relu(x);
  Value a = scale(bent, 2), b = identity(a), c = scale(b, -3);
  graph.node(bent.node).alpha = 0.5;
  graph.node(b.node).alpha = 7;
  graph.node(c.node).alpha = 11;
  graph.mark_output("y", c);
  fold(graph);
  EXPECT_EQ(graph.size(), 2);
  EXPECT_DOUBLE_EQ(graph.node(1).factor(0), 0.5 * 2 * 7 * -3 * 11);
  EXPECT_EQ(graph.node(1).alpha, 0.5);
}

// What others read keeps its scale; the factor goes to those behind it.
TEST(Fold, AFactorBesideOtherReadersGoesDown) {
  Graph graph;
  Value x = graph.input("x", {{3, 3}});
  Value bent = relu(x);
  Value twice = scale(bent, 2);
  Value product = matmul(twice, twice), sum = add({bent, twice, product});
  graph.mark_output("bent", bent);
  graph.mark_output("sum", sum);
  Bindings bindings{{"x", normal_tensor({3, 3}, "x", 1)}};
  expect_same_when_folded(graph, bindings);
  EXPECT_EQ(count_scalers(graph), 0);
  const Node& last = graph.node(graph.output("sum").node);
  EXPECT_EQ(last.op, &weighted_add_op);
  EXPECT_EQ(last.attributes.get<std::vector<double>>("weights"), (std::vector<double>{1, 2, 1}));
  EXPECT_EQ(graph.node(last.inputs[2].node).factor(0), 4);
}

TEST(Fold, WeightsOfASumTakeFactorsTwice) {
  Graph graph;
  Value x = graph.input("x", {{3}}), y = graph.input("y", {{3}});
  Value a = scale(x, 2), b = scale(y, 3);
  Value sum = weighted_add({a, b, a}, {5, 7, 11});
  graph.mark_output("sum", sum);
  Bindings bindings{{"x", normal_tensor({3}, "x", 1)}, {"y", normal_tensor({3}, "y", 1)}};
  expect_same_when_folded(graph, bindings);
  EXPECT_EQ(graph.node(graph.output("sum").node).attributes.get<std::vector<double>>("weights"),
            (std::vector<double>{10, 21, 22}));
}

// Not where one reader cannot take it, and never on what comes from outside or is asked for.
TEST(Fold, LeavesWhatIsReadByABend) {
  Graph graph;
  Value x = graph.input("x", {{3}});
  Value twice = scale(x, 2);
  Value bent = tanh(twice), thrice = scale(twice, 3);
  graph.mark_output("bent", bent);
  graph.mark_output("thrice", thrice);
  expect_same_when_folded(graph, {{"x", normal_tensor({3}, "x", 1)}});
  EXPECT_EQ(count_scalers(graph), 2);
  Graph marked;
  Value w = marked.parameter("w", {3}, {});
  marked.mark_output("scaled", scale(w, 2));
  marked.mark_output("same", identity(w));
  expect_same_when_folded(marked, {{"w", normal_tensor({3}, "w", 1)}});
  EXPECT_EQ(count_scalers(marked), 1);
}

TEST(Fold, AReshapeWithAFactorBecomesAView) {
  Graph graph;
  Value x = graph.input("x", {{4}});
  Value bent = relu(x);
  Value folded = reshape(bent, {2, 2});
  graph.mark_output("y", scale(folded, 3));
  expect_same_when_folded(graph, {{"x", normal_tensor({4}, "x", 1)}});
  EXPECT_EQ(graph.node(graph.output("y").node).factor(0), 1);
}

// A sum of n terms that is scaled by n^-½ is scaled behind the sum: its terms are stored, and keep
// the unit scale that lets them be.
TEST(Fold, TheTermsOfASumKeepTheirScale) {
  Graph graph;
  Value x = graph.input("x", {{400, 3}});
  Value bent = relu(x);
  Value sums = sum(bent, {0});
  graph.node(sums.node).alpha = 0.05;
  graph.mark_output("y", scale(sums, 0.5));
  expect_same_when_folded(graph, {{"x", normal_tensor({400, 3}, "x", 1)}});
  EXPECT_EQ(graph.node(1).factor(0), 1);
  EXPECT_EQ(graph.node(2).factor(0), 0.025);
}

// What a residual passes back is stored at the scale it has, and the sum weighs it.
TEST(Fold, AGradientThatIsPassedOnKeepsItsScale) {
  Graph graph;
  Value x = graph.parameter("x", {4}, {});
  Value bent = tanh(x);
  Value joined = add({x, bent});
  graph.node(joined.node).beta = {0.25, 0.125};
  Value again = tanh(joined);
  graph.mark_output("loss", sum(again, {0}));
  mark_gradients(graph);
  expect_same_when_folded(graph, {{"x", normal_tensor({4}, "x", 1)}});
  EXPECT_EQ(count_scalers(graph), 0);
  const Node& gradient = graph.node(graph.output("x/gradient").node);
  ASSERT_EQ(gradient.op, &weighted_add_op);
  auto weights = gradient.attributes.get<std::vector<double>>("weights");
  std::ranges::sort(weights);
  EXPECT_EQ(weights, (std::vector<double>{0.25, 1}));
  for (Value share : gradient.inputs) {
    bool from_join = graph.node(share.node).name.starts_with("grad/tanh/");
    EXPECT_EQ(graph.node(share.node).factor(0), from_join ? 0.125 : 1) << share.node;
  }
}

// β of a gradient that an op passes on as it is: to sums only, as a weight.
TEST(Fold, ABetaThatPassesAGradientGoesToSumsAlone) {
  auto folded = [](bool read_by_product) {
    auto graph = std::make_unique<Graph>();
    Value x = graph->input("x", {{3, 3}});
    Value bent = relu(x);
    Value passed = identity(bent), other = tanh(x);
    graph->node(passed.node).alpha = 0.5;
    graph->node(passed.node).attributes.set(std::string(kPassesGradient), true);
    Value y = read_by_product ? matmul(passed, other) : add({other, passed});
    graph->mark_output("y", y);
    expect_same_when_folded(*graph, {{"x", normal_tensor({3, 3}, "x", 1)}});
    return graph;
  };
  auto summed = folded(false);
  EXPECT_EQ(summed->node(1).factor(0), 1);
  const Node& sum = summed->node(summed->output("y").node);
  EXPECT_EQ(sum.op, &weighted_add_op);
  EXPECT_EQ(sum.attributes.get<std::vector<double>>("weights"), (std::vector<double>{1, 0.5}));
  auto multiplied = folded(true);
  EXPECT_EQ(multiplied->node(1).factor(0), 0.5);
}

// A parameter that is only added takes what is passed on as its gradient: nobody reads that.
TEST(Fold, APassedGradientMayBeAnOutput) {
  Graph graph;
  Value w = graph.parameter("w", {3}, {}), x = graph.input("x", {{3}}, false);
  Value joined = add({w, x});
  graph.node(joined.node).beta = {0.5, 0.25};
  graph.mark_output("loss", sum(tanh(joined), {0}));
  mark_gradients(graph);
  expect_same_when_folded(graph,
                          {{"w", normal_tensor({3}, "w", 1)}, {"x", normal_tensor({3}, "x", 1)}});
  EXPECT_EQ(count_scalers(graph), 0);
}

}  // namespace
}  // namespace sigma1
