#include "sigma1/models/registry.h"

#include <gtest/gtest.h>

#include "sigma1/analysis/potentials.h"
#include "sigma1/backend/reference.h"
#include "sigma1/backend/simulate.h"
#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/graph/verify.h"
#include "sigma1/ops/shape.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/unit_scaling.h"

namespace sigma1 {
namespace {

Bindings bindings_for(const Graph& graph, const ModelConfig& config) {
  Bindings bindings = initial_parameters(graph, 1);
  for (const Node& node : graph.nodes()) {
    if (node.op != &input_op) continue;
    const TensorType& type = node.outputs.front();
    bindings[node.name] = type.kind == Kind::index
                              ? index_tensor(type.shape, config.vocabulary, node.name, 1)
                              : normal_tensor(type.shape, node.name, 1);
  }
  return bindings;
}

TEST(Models, AllAreScaledValidlyUnderEveryWeighting) {
  for (const Model& model : model_registry()) {
    for (const char* weighting : {"default", "fixed", "running-mean"}) {
      for (Scheme scheme : {Scheme::paper, Scheme::exact}) {
        Graph graph;
        ModelConfig config;
        config.residual = weighting;
        build_model(graph, model.name, config);
        verify(graph);
        unit_scale(graph, ScalingOptions::of(scheme));
        EXPECT_NO_THROW(check_gradients_valid(graph)) << model.name << " " << weighting;
      }
    }
  }
}

TEST(CharLm, EveryKindIsScaledValidly) {
  for (const char* context : {"attention", "conv", "rnn"}) {
    for (const char* norm : {"pre", "post", "none"}) {
      for (Scheme scheme : {Scheme::paper, Scheme::exact}) {
        ModelConfig config = find_model("char_lm").defaults();
        config.context = context;
        config.norm = norm;
        config.time = 16;
        Graph graph;
        build_model(graph, "char_lm", config);
        unit_scale(graph, ScalingOptions::of(scheme));
        EXPECT_NO_THROW(check_gradients_valid(graph)) << context << " " << norm;
      }
    }
  }
}

TEST(CharLm, DefaultsAreThePapersTable) {
  ModelConfig config = find_model("char_lm").defaults();
  EXPECT_EQ(config.batch * config.time, 2048);
  EXPECT_EQ(config.width, 128);
  EXPECT_EQ(config.hidden, 512);
  EXPECT_EQ(config.vocabulary, 5008);
  EXPECT_EQ(config.heads, 2);
}

// The first token is predicted from a trained vector of the states' width, so that no array of
// scores is ever copied.
TEST(CharLm, ShiftsStatesNotScores) {
  Graph graph;
  build_model(graph, "char_lm", find_model("char_lm").defaults());
  bool found = false;
  for (Value parameter : graph.parameters()) {
    if (graph.node(parameter.node).name != "shift/first") continue;
    found = true;
    EXPECT_EQ(parameter.shape(), Shape{128});
  }
  EXPECT_TRUE(found);
  for (const Node& node : graph.nodes()) {
    if (node.op != &concat_op) continue;
    EXPECT_EQ(node.outputs.front().shape, (Shape{8, 256, 128}));
  }
}

TEST(CharLm, MistakesAreNamed) {
  auto refuses = [](auto change) {
    ModelConfig config = find_model("char_lm").defaults();
    change(config);
    Graph graph;
    EXPECT_THROW(build_model(graph, "char_lm", config), Error);
  };
  refuses([](ModelConfig& c) { c.context = "lstm"; });
  refuses([](ModelConfig& c) { c.norm = "batch"; });
  refuses([](ModelConfig& c) { c.heads = 3; });
  refuses([](ModelConfig& c) { c.time = 1; });
  refuses([](ModelConfig& c) {
    c.context = "conv";
    c.width = 100;
  });
}

// At initialisation every weight's gradient of the unit-scaled transformer is near unit scale,
// where the plain one's are spread over orders of magnitude.
TEST(Models, TransformerStartsWithUnitGradients) {
  ModelConfig config;
  Graph graph;
  build_model(graph, "transformer", config);
  unit_scale(graph, ScalingOptions::of(Scheme::exact));
  Bindings bindings = bindings_for(graph, config);
  std::vector<Value> parameters = graph.parameters();
  Gradients gradients = differentiate(graph, graph.output("loss"));
  ReferenceResult result = run_reference(graph, bindings);
  for (Value parameter : parameters) {
    double scale = scale_of({&result[gradients.of(parameter)]}, Criterion::rms);
    EXPECT_GT(scale, 0.25) << graph.node(parameter.node).name;
    EXPECT_LT(scale, 4) << graph.node(parameter.node).name;
  }
}

TEST(Models, MistakesAreNamed) {
  Graph graph;
  EXPECT_THROW(build_model(graph, "transfromer", {}), Error);
  ModelConfig config;
  config.depth = 0;
  EXPECT_THROW(build_model(graph, "mlp", config), Error);
  config = {};
  config.heads = 3;
  EXPECT_THROW(build_model(graph, "transformer", config), Error);
}

}  // namespace
}  // namespace sigma1
