#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "sigma1/base/error.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/storage.h"
#include "sigma1/graph/verify.h"
#include "sigma1/ops/attention.h"
#include "sigma1/passes/lowering.h"
#include "tests/models/training_graph.h"
#include "tests/passes/same_outputs.h"

namespace sigma1 {
namespace {

bool always(const Graph&, int) { return true; }

int64_t count(const Graph& graph, const OpDef& op) {
  return std::ranges::count(graph.nodes(), &op, &Node::op);
}

const Node& find(const Graph& graph, const OpDef& op) {
  return *std::ranges::find(graph.nodes(), &op, &Node::op);
}

// The attention whose logarithms and result a gradient reads.
const Node& kept_by(const Graph& graph, const Node& gradient) {
  Value result = gradient.inputs.end()[-2], logs = gradient.inputs.end()[-1];
  EXPECT_EQ(result.node, logs.node);
  EXPECT_EQ(logs.output, 1);
  return graph.node(logs.node);
}

// The models' layers whose attention knows no relative positions.
int64_t layers(const TrainingCase& each) {
  bool attends = each.model == "gpt" || each.model == "bert" || each.model == "transformer";
  return attends ? each.config.depth : 0;
}

TEST(KeepAttention, GivesTheSameLossAndGradients) {
  for (const TrainingCase& each : training_cases()) {
    for (int scheme = 0; scheme < 3; ++scheme) {
      SCOPED_TRACE(each.name);
      Graph graph;
      build_training_graph(
          graph, each,
          scheme == 0 ? std::nullopt : std::optional(scheme == 1 ? Scheme::paper : Scheme::exact));
      // With attention's own factor, and with one that was folded into it.
      if (scheme != 1) fold(graph);
      Bindings bindings = training_bindings(graph);
      Outputs before = outputs_of(graph, bindings);
      int64_t all = count(graph, attention_op);
      keep_attention(graph, always);
      verify(graph);
      expect_same_outputs(outputs_of(graph, bindings), before, 1e-12);
      EXPECT_EQ(count(graph, attention_kept_op), layers(each));
      EXPECT_EQ(count(graph, attention_kept_grad_op), layers(each));
      EXPECT_EQ(count(graph, attention_op), all - layers(each));
      EXPECT_EQ(count(graph, attention_grad_op), all - layers(each));
    }
  }
}

TEST(KeepAttention, OnlyWhereItIsWanted) {
  for (const TrainingCase& each : training_cases()) {
    if (each.name != "gpt") continue;
    Graph graph;
    build_training_graph(graph, each);
    keep_attention(graph, [](const Graph& of, int node) {
      EXPECT_EQ(of.node(node).op, &attention_grad_op);
      return of.node(node).name.find("layer1/") != std::string::npos;
    });
    EXPECT_EQ(count(graph, attention_op), 1);
    EXPECT_EQ(count(graph, attention_grad_op), 1);
    const Node& gradient = find(graph, attention_kept_grad_op);
    EXPECT_EQ(gradient.name, "grad/layer1/attention/attention/attention_grad");
    EXPECT_EQ(kept_by(graph, gradient).name, "layer1/attention/attention");
  }
}

// A gradient of other keys, or at another temperature, is not that of the attention there is.
TEST(KeepAttention, MatchesValuesAndSettings) {
  for (bool other_keys : {false, true}) {
    Graph graph;
    Value x = graph.input("x", {{2, 4, 6}}), y = graph.input("y", {{2, 4, 6}});
    Value attended = attention(x, x, x);
    Attributes attributes = graph.node(attended.node).attributes;
    if (!other_keys) attributes.set("multiplier", 2.0);
    graph.append(attention_grad_op, {x, other_keys ? y : x, x, attended}, attributes);
    keep_attention(graph, always);
    EXPECT_EQ(count(graph, attention_op), 1);
    EXPECT_EQ(count(graph, attention_grad_op), 1);
  }
}

// Layers that are computed again keep what is read right after; the others' attention is forward's.
TEST(KeepAttention, OfLayersThatAreComputedAgainKeepsTheSecond) {
  for (const TrainingCase& each : training_cases()) {
    for (Recompute what : {Recompute::norms, Recompute::activations, Recompute::blocks}) {
      if (layers(each) == 0) continue;
      SCOPED_TRACE(each.name);
      Graph graph;
      build_training_graph(graph, each, Scheme::paper);
      fold(graph);
      Bindings bindings = training_bindings(graph);
      Outputs before = outputs_of(graph, bindings);
      recompute(graph, what);
      keep_attention(graph, always);
      remove_dead_nodes(graph);
      verify(graph);
      expect_same_outputs(outputs_of(graph, bindings), before, 1e-12);
      bool again = what == Recompute::blocks;
      EXPECT_EQ(count(graph, attention_kept_grad_op), layers(each));
      EXPECT_EQ(count(graph, attention_op), again ? layers(each) : 0);
      for (const Node& node : graph.nodes()) {
        if (node.op != &attention_kept_grad_op) continue;
        EXPECT_EQ(kept_by(graph, node).again, again);
      }
    }
  }
}

// gpt, lowered; its attention in the formats that tensors are stored in where `wide`.
std::unique_ptr<Graph> lowered(const std::string& precision, bool wide = false) {
  auto graph = std::make_unique<Graph>();
  for (const TrainingCase& each : training_cases()) {
    if (each.name == "gpt") build_training_graph(*graph, each, Scheme::paper);
  }
  fold(*graph);
  Precision formats = Precision::named(precision);
  if (wide) formats.overrides.push_back({"*attention/attention*", "stored"});
  lower_precision(*graph, formats);
  remove_dead_nodes(*graph);
  merge_casts(*graph);
  keep_attention(*graph, always);
  verify(*graph);
  return graph;
}

std::string format(const Node& node, size_t output) {
  return format_name(storage(node, output).format);
}

TEST(KeepAttention, TakesAnOutputOfSixteenBitsForTheResult) {
  for (const char* precision : {"fp16", "bf16", "fp32"}) {
    SCOPED_TRACE(precision);
    std::unique_ptr<Graph> graph = lowered(precision);
    const Node& gradient = find(*graph, attention_kept_grad_op);
    const Node& kept = kept_by(*graph, gradient);
    EXPECT_EQ(kept.outputs.size(), 2U);
    EXPECT_EQ(gradient.inputs.end()[-2].output, 0);
    EXPECT_NE(kept.factor(0), 1);
    EXPECT_EQ(kept.factor(1), 1);
    EXPECT_EQ(gradient.attributes.get<double>(kResultFactor), kept.factor(0));
    EXPECT_EQ(format(kept, 0), precision);
    EXPECT_EQ(format(kept, 1), "fp32");
    EXPECT_EQ(format(gradient, 0), precision);
  }
}

TEST(KeepAttention, HasTheResultBesideAnOutputOfEightBits) {
  for (bool wide : {false, true}) {
    SCOPED_TRACE(wide);
    std::unique_ptr<Graph> graph = lowered("fp8", wide);
    const Node& gradient = find(*graph, attention_kept_grad_op);
    const Node& kept = kept_by(*graph, gradient);
    ASSERT_EQ(kept.outputs.size(), 3U);
    EXPECT_EQ(gradient.inputs.end()[-2].output, 2);
    EXPECT_NE(kept.factor(0), 1);
    EXPECT_EQ(kept.factor(1), 1);
    EXPECT_EQ(kept.factor(2), 1);
    EXPECT_EQ(gradient.attributes.get<double>(kResultFactor), 1);
    EXPECT_EQ(format(kept, 0), "e4m3");
    EXPECT_EQ(format(kept, 1), "fp32");
    EXPECT_EQ(format(kept, 2), wide ? "fp16" : "fp32");
  }
}

std::string refusal_of(const OpDef& op, const std::vector<Shape>& shapes, Attributes attributes) {
  attributes.set("heads", int64_t{2});
  attributes.set("causal", true);
  attributes.set("multiplier", 1.0);
  Graph graph;
  std::vector<Value> inputs;
  for (const Shape& shape : shapes) {
    inputs.push_back(graph.input("x" + std::to_string(inputs.size()), {shape}));
  }
  try {
    graph.append(op, inputs, attributes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(KeptAttentionOps, RefuseWhatDoesNotFit) {
  Shape x{2, 4, 6}, logs{2, 2, 4};
  auto kept = [](bool relative) {
    return Attributes{{"has_relative", relative}, {"has_mask", false}, {kKeepsResult, true}};
  };
  auto grad = [](double factor) {
    return Attributes{{"has_relative", false}, {"has_mask", false}, {kResultFactor, factor}};
  };
  EXPECT_EQ(refusal_of(attention_kept_op, {x, x, x}, kept(false)), "");
  EXPECT_EQ(refusal_of(attention_kept_grad_op, {x, x, x, x, x, logs}, grad(0.5)), "");
  auto expect = [](const std::string& refusal, std::string_view part) {
    EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
  };
  expect(refusal_of(attention_kept_op, {x, x, x, {4, 6}}, kept(true)), "relative: expected none");
  expect(refusal_of(attention_kept_op, {x, x, x, {2, 4}}, kept(false)), "expected 3 inputs, got 4");
  expect(refusal_of(attention_kept_grad_op, {x, x, x, x, {2, 4, 5}, logs}, grad(1)), "input 4:");
  expect(refusal_of(attention_kept_grad_op, {x, x, x, x, x, {2, 4, 2}}, grad(1)), "input 5:");
  expect(refusal_of(attention_kept_grad_op, {x, x, x, x, x, logs}, grad(0)), "result_factor:");
}

}  // namespace
}  // namespace sigma1
