#include "sigma1/analysis/parameter_factors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/backend/reference.h"
#include "sigma1/base/error.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/sources.h"
#include "sigma1/models/registry.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/passes/unit_scaling.h"

namespace sigma1 {
namespace {

// A norm's epsilon knows the scale of what it reads, so that it alone would differ.
void build(Graph& graph, const std::string& model, const ModelConfig& config,
           const std::string& output, const ScalingOptions* options) {
  build_model(graph, model, config);
  if (options) unit_scale(graph, *options);
  for (int i = 0; i < graph.size(); ++i) {
    if (graph.node(i).attributes.get_or("eps", -1.0) >= 0) graph.node(i).attributes.set("eps", 0.0);
  }
  graph.keep_outputs({output});
  remove_dead_nodes(graph);
}

Bindings inputs_of(const Graph& graph, int64_t limit) {
  Bindings bindings;
  for (const Node& node : graph.nodes()) {
    if (node.op != &input_op) continue;
    const TensorType& type = node.outputs.front();
    bindings[node.name] = type.kind == Kind::index ? index_tensor(type.shape, limit, node.name, 1)
                                                   : normal_tensor(type.shape, node.name, 1);
  }
  return bindings;
}

// Runs `from` with random parameters and `to` with those the factors make of them.
void expect_same(const Graph& from, const Graph& to, int64_t limit) {
  std::map<std::string, double> factors = parameter_factors(from, to);
  Bindings before = inputs_of(from, limit), after = before;
  double changed = 0;
  for (Value parameter : from.parameters()) {
    const std::string& name = from.node(parameter.node).name;
    // Biases and gains too are not what they start as.
    Tensor numbers = normal_tensor(parameter.shape(), name, 7);
    before[name] = numbers;
    ASSERT_TRUE(factors.contains(name)) << name;
    changed = std::max(changed, std::fabs(std::log(factors[name])));
    for (double& number : numbers.data) number *= factors[name];
    after[name] = numbers;
  }
  EXPECT_GT(changed, 0.1) << "nothing had to be folded";
  Tensor expected = run_reference(from, before)[from.outputs().front().second];
  Tensor found = run_reference(to, after)[to.outputs().front().second];
  double size = 0, error = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    size = std::max(size, std::fabs(expected[i]));
    error = std::max(error, std::fabs(expected[i] - found[i]));
  }
  EXPECT_GT(size, 1e-6);
  EXPECT_LT(error / size, 1e-10);
}

void expect_both_ways(const std::string& model, ModelConfig config, const std::string& output) {
  ModelConfig plain = config;
  plain.residual = "default";
  plain.attention_multiplier = plain.activation_multiplier = 1;
  for (Scheme scheme : {Scheme::paper, Scheme::exact}) {
    ScalingOptions options = ScalingOptions::of(scheme);
    Graph from, to;
    build(from, model, config, output, &options);
    build(to, model, plain, output, nullptr);
    expect_same(from, to, config.vocabulary);
    expect_same(to, from, config.vocabulary);
  }
}

ModelConfig small() {
  return {
      .batch = 2, .time = 5, .width = 32, .hidden = 24, .depth = 2, .heads = 4, .vocabulary = 11};
}

TEST(ParameterFactors, GptIsPlainAndBack) {
  ModelConfig config = small();
  config.attention_multiplier = 1.7;
  config.activation_multiplier = 0.6;
  config.residual = "running-mean";
  expect_both_ways("gpt", config, "scores");
  config.block = "llama";
  config.kv_heads = 2;
  expect_both_ways("gpt", config, "scores");
}

TEST(ParameterFactors, CharacterModelsToo) {
  for (const char* norm : {"pre", "post"}) {
    for (const char* context : {"attention", "conv"}) {
      ModelConfig config = small();
      config.norm = norm;
      config.context = context;
      config.time = 9;
      config.residual = "running-mean";
      expect_both_ways("char_lm", config, "scores");
    }
  }
}

TEST(ParameterFactors, VectorsKeepTheirNumbersWhereTheyCan) {
  ScalingOptions options;
  Graph from, to;
  build(from, "gpt", small(), "scores", &options);
  build(to, "gpt", small(), "scores", nullptr);
  std::map<std::string, double> factors = parameter_factors(from, to);
  EXPECT_EQ(factors.at("layer0/norm1/gain"), 1);
  EXPECT_EQ(factors.at("norm/bias"), 1);
}

// A norm hides the scale of embeddings: a unit-scaled model's have its own all the same.
TEST(ParameterFactors, WhatOnlyNormsReadBecomesAsLargeAsItStarts) {
  ScalingOptions options;
  Graph plain, unit;
  build(plain, "bert_squad", small(), "start_scores", nullptr);
  build(unit, "bert_squad", small(), "start_scores", &options);
  auto std_dev = [](const Graph& graph, const std::string& name) {
    for (const Node& node : graph.nodes()) {
      if (node.name == name) return node.attributes.get<double>("std_dev");
    }
    throw Bug("no parameter {}", name);
  };
  double started = std_dev(plain, "embedding/token");
  ASSERT_LT(started, 0.1);
  EXPECT_NEAR(parameter_factors(plain, unit).at("embedding/token"), 1 / started, 1e-9 / started);
  EXPECT_NEAR(parameter_factors(unit, plain).at("embedding/token"), started, 1e-9);
}

TEST(ParameterFactors, WhatNoParameterCanTakeIsNamed) {
  Graph from, to;
  for (Graph* graph : {&from, &to}) {
    Value x = graph->input("x", {{2, 3}});
    graph->mark_output("y", tanh(x));
  }
  from.node(1).alpha = 2;
  try {
    parameter_factors(from, to);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("tanh"), std::string::npos) << error.what();
  }
}

TEST(ParameterFactors, AProductBeforeAnActivationTakesItsFactor) {
  Graph from, to;
  for (Graph* graph : {&from, &to}) {
    Value x = graph->input("x", {{2, 3}});
    Value w = graph->parameter("w", {3, 4}, {});
    Value v = graph->parameter("v", {4, 1}, {});
    Value bent = tanh(matmul(x, w));
    graph->mark_output("y", matmul(bent, v));
  }
  auto node = [&](const std::string& name) -> Node& {
    for (int i = 0; i < from.size(); ++i) {
      if (from.node(i).name == name) return from.node(i);
    }
    throw Bug("no node {}", name);
  };
  node("matmul").alpha = 0.5;
  node("tanh").alpha = 3;
  std::map<std::string, double> factors = parameter_factors(from, to);
  EXPECT_NEAR(factors.at("w"), 0.5, 1e-12);
  EXPECT_NEAR(factors.at("v"), 3, 1e-12);
}

}  // namespace
}  // namespace sigma1
