#include "sigma1/train/tensor_labels.h"

#include <gtest/gtest.h>

#include <set>

#include "sigma1/graph/sources.h"
#include "sigma1/nn/layers.h"
#include "sigma1/nn/residual.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

using Named = std::pair<TensorRole, std::string>;

// Two dense layers, the second a residual branch.
void build_two_layers(Graph& graph) {
  Value x = graph.input("x", {{5, 8}}), target = graph.input("target", {{5, 8}}, false);
  Value first = dense("first", x, 8);
  Value y = residual(first, fixed_residual(0.5), [](Value h) {
    Value up = dense("second", h, 8);
    return relu(up);
  });
  graph.mark_output("loss", mse(y, target));
}

std::set<std::string> forward_names(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (node.name.starts_with("grad/") || node.name == kGradientSeed) break;
    names.insert(node.name);
  }
  return names;
}

// "X from Y" is about X, and so is its second output "X:1".
std::string owner(const std::string& label) {
  std::string name = label.substr(0, label.find(" from "));
  return name.substr(0, name.find(':'));
}

void expect_gradients_have_owners(const Graph& graph, const TensorLabels& labels) {
  std::set<std::string> forward = forward_names(graph);
  for (const auto& [key, label] : labels) {
    EXPECT_TRUE(forward.contains(owner(label.name))) << label.name;
    size_t from = label.name.find(" from ");
    if (from != std::string::npos) {
      EXPECT_TRUE(forward.contains(label.name.substr(from + 6))) << label.name;
    }
  }
}

TEST(TensorLabels, OfTwoLayersWithAResidual) {
  Graph graph;
  build_two_layers(graph);
  std::set<std::string> forward = forward_names(graph);
  TensorLabels labels = label_tensors(graph, differentiate(graph, graph.output("loss")));
  expect_gradients_have_owners(graph, labels);
  std::set<Named> found;
  for (const auto& [key, label] : labels) found.insert({label.role, label.name});
  for (const std::string& name : forward) {
    bool is_weight = name.ends_with("weight") || name.ends_with("bias");
    EXPECT_TRUE(found.contains({is_weight ? TensorRole::weight : TensorRole::activation, name}));
    EXPECT_EQ(found.contains({TensorRole::gradw, name}), is_weight) << name;
  }
  for (const char* name : {"first/linear", "second/linear", "x"}) {
    EXPECT_TRUE(found.contains({TensorRole::gradx, name})) << name;
  }
}

TEST(TensorLabels, PartsOfAGradientAreCalledAfterTheirReaders) {
  Graph graph;
  Value x = graph.input("x", {{5, 8}}), target = graph.input("target", {{5, 8}}, false);
  Value bent = relu(x);
  Value a = dense("a", bent, 8), b = dense("b", bent, 8);
  Value y = mul(a, b);
  graph.mark_output("loss", mse(y, target));
  TensorLabels labels = label_tensors(graph, differentiate(graph, graph.output("loss")));
  std::set<Named> found;
  for (const auto& [key, label] : labels) found.insert({label.role, label.name});
  EXPECT_TRUE(found.contains({TensorRole::gradx, "relu"}));
  EXPECT_TRUE(found.contains({TensorRole::gradx, "relu from a/linear"}));
  EXPECT_TRUE(found.contains({TensorRole::gradx, "relu from b/linear"}));
}

bool makes_tensor(const Node& node) { return node.op != &reshape_op && node.op != &identity_op; }

// What lowering leaves of a label is one tensor, and every one has a label.
class LabelsOf : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(LabelsOf, TheLoweredModel) {
  auto [context, method] = GetParam();
  TrainConfig config = tiny_config({{"context", context}, {"method", method}});
  LabelledGraph labelled = labelled_gradient_graph(config, {});
  std::shared_ptr<Graph> model = scaled_model(config, {});
  std::set<std::string> forward = forward_names(*model);
  std::map<Named, int> times;
  std::map<std::string, int> of_parameter;
  for (const Node& node : labelled.step.graph->nodes()) {
    if (!makes_tensor(node)) continue;
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) {
      if (node.outputs[static_cast<size_t>(o)].count() < 2) continue;
      auto found = labelled.labels.find({node.name, o});
      ASSERT_NE(found, labelled.labels.end()) << node.name;
      const TensorLabel& label = found->second;
      EXPECT_EQ(++times[(Named{label.role, label.name})], 1) << label.name << " at " << node.name;
      EXPECT_TRUE(forward.contains(owner(label.name))) << label.name;
      EXPECT_FALSE(label.name.starts_with("grad/")) << label.name;
      if (label.role == TensorRole::gradw) ++of_parameter[label.name];
    }
  }
  for (Value parameter : labelled.step.graph->parameters()) {
    const std::string& name = labelled.step.graph->node(parameter.node).name;
    EXPECT_EQ(of_parameter[name], 1) << name;
  }
}
INSTANTIATE_TEST_SUITE_P(Contexts, LabelsOf,
                         testing::Values(std::pair{"attention", "none"},
                                         std::pair{"attention", "unit"}, std::pair{"conv", "none"},
                                         std::pair{"conv", "unit"}, std::pair{"rnn", "none"},
                                         std::pair{"rnn", "unit"}));

}  // namespace
}  // namespace sigma1
