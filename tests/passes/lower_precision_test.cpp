#include <gtest/gtest.h>

#include <set>

#include "sigma1/graph/sources.h"
#include "sigma1/graph/verify.h"
#include "sigma1/ops/cast.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/shape.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/lowering.h"
#include "tests/models/training_graph.h"
#include "tests/passes/same_outputs.h"

namespace sigma1 {
namespace {

FloatFormat format(const char* name) { return find_format(name).format; }

const Node* find_node(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes()) {
    if (node.name == name) return &node;
  }
  return nullptr;
}

FloatFormat stored_format(const Graph& graph, Value value) {
  return graph.node(value.node).storage[static_cast<size_t>(value.output)].format;
}

bool is_cast(const Node& node) { return node.op == &identity_op || node.op == &scaled_cast_op; }

int count_casts(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += is_cast(node) ? 1 : 0;
  return count;
}

// x → up → relu → head → loss, each weight of its own, and all gradients.
void build_two_layers(Graph& graph) {
  Value x = graph.input("x", {{6, 4}});
  Value w = graph.parameter("up_weight", {4, 5}, {}),
        v = graph.parameter("head_weight", {5, 3}, {});
  Value hidden, scores;
  {
    Graph::Path path(graph, "up");
    hidden = relu(matmul(x, w));
  }
  {
    Graph::Path path(graph, "head");
    scores = matmul(hidden, v);
  }
  graph.mark_output("loss", sum(mul(scores, scores), {0, 1}));
  mark_gradients(graph);
  fold(graph);
}

TEST(LowerPrecision, StoresEachRoleInItsFormat) {
  Graph graph;
  build_two_layers(graph);
  Precision precision;
  precision.activations = "fp16";
  precision.weights = "e4m3";
  precision.gradients = "bf16";
  lower_precision(graph, precision);
  verify(graph);
  EXPECT_EQ(count_casts(graph), 0);
  auto stored = [&](const std::string& name) { return find_node(graph, name)->storage[0]; };
  EXPECT_EQ(stored("x").format, format("fp32"));
  EXPECT_EQ(stored("up_weight").format, format("e4m3"));
  EXPECT_EQ(stored("up/matmul"), storage_cast("fp16"));
  EXPECT_EQ(stored("head/matmul"), storage_cast("fp16"));
  EXPECT_EQ(stored("sum").format, format("fp32"));  // the loss, a scalar
  EXPECT_EQ(stored(std::string(kGradientSeed)).format, format("fp32"));
  EXPECT_EQ(stored_format(graph, graph.output("up_weight/gradient")), format("bf16"));
  EXPECT_EQ(stored_format(graph, graph.output("head_weight/gradient")), format("bf16"));
  int gradients = 0;
  for (const Node& node : graph.nodes()) {
    ASSERT_EQ(node.storage.size(), node.outputs.size()) << node.name;
    if (!node.name.starts_with("grad/") || node.outputs[0].shape.empty()) continue;
    ++gradients;
    EXPECT_EQ(node.storage[0], storage_cast("bf16")) << node.name;
  }
  EXPECT_GE(gradients, 4);
}

TEST(LowerPrecision, SinglePrecisionChangesNothing) {
  for (const TrainingCase& each : training_cases()) {
    Graph graph;
    build_training_graph(graph, each);
    int size = graph.size();
    lower_precision(graph, Precision::named("fp32"));
    EXPECT_EQ(graph.size(), size);
    for (const Node& node : graph.nodes()) {
      for (const Cast& cast : node.storage) EXPECT_EQ(cast.format, format("fp32")) << node.name;
    }
  }
}

// Values and weights in E4M3, gradients in E5M2; forward and backward share the cast.
TEST(LowerPrecision, CastsBeforeProductsOnce) {
  Graph graph;
  build_two_layers(graph);
  Precision precision = Precision::named("fp8");
  precision.overrides.clear();
  lower_precision(graph, precision);
  verify(graph);
  std::map<std::string, std::string> formats;
  for (const Node& node : graph.nodes()) {
    if (!is_cast(node)) continue;
    ASSERT_EQ(node.storage.size(), 1u);
    EXPECT_EQ(node.storage[0].overflow, Overflow::saturate) << node.name;
    formats[node.name.substr(0, node.name.rfind('/'))] =
        node.storage[0].format == format("e4m3")   ? "e4m3"
        : node.storage[0].format == format("e5m2") ? "e5m2"
                                                   : "other";
  }
  // x, both weights and the hidden layer; the gradients of both products' results.
  EXPECT_EQ(count_casts(graph), 6);
  for (const char* name : {"x", "up_weight", "head_weight", "up/relu"}) {
    EXPECT_EQ(formats[name], "e4m3") << name;
  }
  int gradients = 0;
  for (const auto& [name, each] : formats) {
    if (!name.starts_with("grad/")) continue;
    ++gradients;
    EXPECT_EQ(each, "e5m2") << name;
  }
  EXPECT_EQ(gradients, 2);
  for (const Node& node : graph.nodes()) {
    if (node.op != &matmul_op) continue;
    for (Value input : node.inputs) EXPECT_TRUE(is_cast(graph.node(input.node))) << node.name;
    EXPECT_EQ(node.storage[0].format, format("fp16")) << node.name;
  }
}

TEST(LowerPrecision, LeavesTheHeadByDefault) {
  Graph graph;
  build_two_layers(graph);
  lower_precision(graph, Precision::named("fp8"));
  for (const Node& node : graph.nodes()) {
    if (node.op != &matmul_op) continue;
    bool head = node.name.find("head") != std::string::npos;
    for (Value input : node.inputs) {
      EXPECT_EQ(is_cast(graph.node(input.node)), !head) << node.name;
    }
  }
  EXPECT_EQ(count_casts(graph), 3);  // x, its weight, and the gradient behind
}

TEST(LowerPrecision, AnOverrideHoldsForForwardAndBackward) {
  for (const char* pattern : {"up", "up/matmul", "u*", "*up*"}) {
    Graph graph;
    build_two_layers(graph);
    Precision precision;
    precision.overrides = {{"*", "bf16"}, {"*", "stored"}, {pattern, "fp8"}};
    lower_precision(graph, precision);
    int lowered = 0;
    for (const Node& node : graph.nodes()) {
      if (node.op != &matmul_op) continue;
      for (Value input : node.inputs) lowered += is_cast(graph.node(input.node)) ? 1 : 0;
    }
    EXPECT_EQ(lowered, 3 * 2) << pattern;  // forward, and the gradients of both factors
  }
}

TEST(LowerPrecision, DoesNotCastToAWiderFormat) {
  Graph graph;
  build_two_layers(graph);
  Precision precision = Precision::named("bf16");
  precision.matmul = "fp16";
  lower_precision(graph, precision);
  EXPECT_EQ(count_casts(graph), 1);  // x alone is fp32
}

// Forward multiplies the reshaped tensor, backward the tensor: one cast serves both.
TEST(LowerPrecision, LooksThroughAReshape) {
  Graph graph;
  Value x = graph.input("x", {{2, 3, 4}}, false);
  Value w = graph.parameter("w", {4, 5}, {}), v = graph.parameter("v", {4, 5}, {});
  Value bent = relu(x);
  Value flat = reshape(bent, {6, 4}), again = reshape(flat, {3, 2, 4});
  Value a = sum(matmul(bent, w), {0, 1, 2}), b = sum(matmul(flat, v), {0, 1});
  Value c = sum(matmul(again, v), {0, 1, 2});
  graph.mark_output("a", a);
  graph.mark_output("b", b);
  graph.mark_output("c", c);
  Precision precision = Precision::named("fp8");
  lower_precision(graph, precision);
  verify(graph);
  int of_activations = 0;
  for (const Node& node : graph.nodes()) {
    if (is_cast(node) && node.name.starts_with("relu")) ++of_activations;
    if (node.op != &matmul_op) continue;
    for (Value input : node.inputs) {
      EXPECT_EQ(stored_format(graph, input), format("e4m3")) << node.name;
      EXPECT_EQ(input.type(), graph.node(input.node).outputs[0]);
    }
  }
  EXPECT_EQ(of_activations, 1);
  EXPECT_EQ(count_casts(graph), 3);
}

// A factor that fold could not pass on is part of the value.
TEST(LowerPrecision, KeepsTheFactorOfAReshape) {
  Graph graph;
  Value x = graph.input("x", {{2, 3, 4}}, false);
  Value w = graph.parameter("w", {4, 5}, {});
  Value flat = reshape(relu(x), {6, 4});
  graph.node(flat.node).alpha = 0.25;
  graph.mark_output("y", matmul(flat, w));
  Bindings bindings{{"x", Tensor({2, 3, 4}, std::vector<double>(24, 1.0))},
                    {"w", Tensor({4, 5}, std::vector<double>(20, 1.0))}};
  Outputs before = outputs_of(graph, bindings);
  lower_precision(graph, Precision::named("fp8"));
  expect_same_outputs(outputs_of(graph, bindings), before, 1e-12);
}

TEST(LowerPrecision, CurrentScalingFindsTheScaleItself) {
  Graph graph;
  build_two_layers(graph);
  Precision precision = Precision::named("fp8");
  precision.scaling = CastScaling::current;
  lower_precision(graph, precision);
  verify(graph);
  int casts = 0;
  for (const Node& node : graph.nodes()) {
    ASSERT_NE(node.op, &identity_op);
    if (node.op != &scaled_cast_op) continue;
    ++casts;
    EXPECT_EQ(node.inputs.size(), 1u);
    bool gradient = node.name.starts_with("grad/");
    EXPECT_EQ(node.attributes.get<std::string>("format"), gradient ? "e5m2" : "e4m3");
    EXPECT_EQ(node.storage[0].format, format(gradient ? "e5m2" : "e4m3")) << node.name;
  }
  EXPECT_EQ(casts, 3);
}

TEST(LowerPrecision, DelayedScalingHasItsHistoryInAndOut) {
  Graph graph;
  build_two_layers(graph);
  Precision precision = Precision::named("fp8");
  precision.scaling = CastScaling::delayed;
  size_t outputs_before = graph.outputs().size();
  lower_precision(graph, precision);
  verify(graph);
  EXPECT_EQ(graph.outputs().size(), outputs_before + 3);
  for (const Node& node : graph.nodes()) {
    if (node.op != &scaled_cast_op) continue;
    ASSERT_EQ(node.inputs.size(), 2u);
    ASSERT_EQ(node.storage.size(), 2u);
    EXPECT_EQ(node.storage[1].format, format("fp32"));
    std::string history = node.name + "/amax_history";
    const Node& source = graph.node(node.inputs[1].node);
    EXPECT_EQ(source.op, &input_op);
    EXPECT_EQ(source.name, history);
    EXPECT_EQ(source.storage[0].format, format("fp32"));
    EXPECT_EQ(&graph.node(graph.output(history).node), &node);
    EXPECT_EQ(graph.output(history).output, 1);
  }
}

// Of the vocabulary's product, forward or backward.
bool names_head(std::string_view node) {
  if (node.starts_with("grad/")) node.remove_prefix(5);
  return node.starts_with("head/") || node.starts_with("mlm/scores/");
}

// In every model: products read 8 bits, except the head's; nothing is cast twice to one format.
TEST(LowerPrecision, HoldsForEveryModel) {
  for (const TrainingCase& each : training_cases()) {
    SCOPED_TRACE(each.name);
    Graph graph;
    build_training_graph(graph, each, Scheme::paper);
    fold(graph);
    lower_precision(graph, Precision::named("fp8"));
    verify(graph);
    std::set<std::tuple<int, int, int>> casts;
    for (const Node& node : graph.nodes()) {
      std::vector<TensorType> types = node.input_types();
      if (is_cast(node)) {
        Value from = node.inputs.front();
        bool is_new =
            casts.insert({from.node, from.output, node.storage[0].format.exponent_bits}).second;
        EXPECT_TRUE(is_new) << node.name;
        EXPECT_NE(graph.node(from.node).op, &reshape_op) << node.name;
      }
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!node.op->multiplies || !node.op->multiplies({types, node.attributes}, i)) continue;
        bool head = names_head(node.name);
        int bits = stored_format(graph, node.inputs[i]).bits();
        EXPECT_EQ(bits == 8, !head) << node.name << " input " << i << " of " << bits << " bits";
      }
    }
  }
}

}  // namespace
}  // namespace sigma1
