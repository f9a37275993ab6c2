#include "sigma1/models/registry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

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

ModelConfig llama() {
  ModelConfig config = find_model("gpt").defaults();
  config.block = "llama";
  config.time = 16;
  config.heads = 8;
  config.kv_heads = 2;
  return config;
}

TEST(Gpt, LlamasBlocksAreScaledValidly) {
  for (Scheme scheme : {Scheme::paper, Scheme::exact}) {
    Graph graph;
    build_model(graph, "gpt", llama());
    unit_scale(graph, ScalingOptions::of(scheme));
    EXPECT_NO_THROW(check_gradients_valid(graph));
  }
}

TEST(Gpt, LlamasBlocksHaveNoBiasesAndNoTableOfPositions) {
  Graph graph;
  build_model(graph, "gpt", llama());
  std::set<std::string> first_layer, others;
  for (Value parameter : graph.parameters()) {
    const std::string& name = graph.node(parameter.node).name;
    if (name.starts_with("layer0/")) first_layer.insert(name.substr(7));
    if (!name.starts_with("layer")) others.insert(name);
  }
  EXPECT_EQ(first_layer,
            (std::set<std::string>{"norm1/gain", "attention/q/weight", "attention/kv/weight",
                                   "attention/out/weight", "norm2/gain", "ffn/gate/weight",
                                   "ffn/up/weight", "ffn/down/weight"}));
  EXPECT_EQ(others,
            (std::set<std::string>{"embedding/token", "norm/gain", "shift/first", "head/weight"}));
}

// Parameters of the published models, whose head is the table of tokens once more.
TEST(Gpt, NamedSizesAreThoseOfGpt2) {
  for (auto [name, millions] :
       {std::pair{"124M", 124.4}, {"355M", 354.8}, {"774M", 774.0}, {"1.5B", 1557.6}}) {
    ModelConfig config = find_model("gpt").defaults();
    config.set_named(name);
    config.batch = 1;
    config.vocabulary = 50257;
    Graph graph;
    build_model(graph, "gpt", config);
    int64_t count = -config.vocabulary * config.width - config.width;  // head, and the first state
    for (Value parameter : graph.parameters()) count += parameter.type().count();
    EXPECT_NEAR(static_cast<double>(count) / 1e6, millions, 0.06) << name;
    EXPECT_EQ(config.time, 1024);
  }
}

const Node& node_named(const Graph& graph, std::string_view name) {
  for (const Node& node : graph.nodes()) {
    if (node.name == name) return node;
  }
  throw Bug("no node {}", name);
}

// The head gives 1/width of the product, and its gradients are of unit scale all the same: its
// edges are cut edges, and the proof finds nothing wrong with it.
TEST(Gpt, TheReadoutOfUMupHasFactorsOfItsOwn) {
  for (const char* block : {"gpt2", "llama"}) {
    for (Scheme scheme : {Scheme::paper, Scheme::exact}) {
      ModelConfig config = llama();
      config.block = block;
      config.parametrization = "u-mup";
      config.loss_multiplier = 3;
      config.attention_multiplier = 2;
      Graph graph;
      build_model(graph, "gpt", config);
      unit_scale(graph, ScalingOptions::of(scheme));
      EXPECT_NO_THROW(check_gradients_valid(graph));
      const Node& head = node_named(graph, "head/matmul");
      EXPECT_NEAR(head.alpha, 3.0 / 128, 1e-12);
      EXPECT_NEAR(head.beta[0], 1 / std::sqrt(256.0), 1e-3);
      EXPECT_NEAR(head.beta[1], 1 / std::sqrt(8.0 * 16), 1e-12);
      const Node& attention = node_named(graph, "layer2/attention/attention");
      EXPECT_NEAR(attention.attributes.get<double>("multiplier"), 2 / std::sqrt(128.0 / 8), 1e-12);
      for (Value parameter : graph.parameters()) {
        EXPECT_EQ(graph.node(parameter.node).name.find("norm"), std::string::npos);
      }
    }
  }
}

TEST(Gpt, HeadsAndFeedForwardLayersFollowTheWidthWhereTheyAreNotSaid) {
  ModelConfig config = find_model("gpt").defaults();
  config.heads = config.hidden = 0;
  for (int64_t width : {32, 128, 256}) {
    config.width = width;
    EXPECT_EQ(config.resolved().heads, std::max<int64_t>(1, width / 64));
    EXPECT_EQ(config.resolved().hidden, 4 * width);
    Graph graph;
    EXPECT_NO_THROW(build_model(graph, "gpt", config));
    EXPECT_EQ(node_named(graph, "layer0/ffn/up/weight").outputs.front().shape,
              (Shape{width, 4 * width}));
  }
}

TEST(Gpt, MistakesAreNamed) {
  auto refuses = [](const char* model, auto change) {
    ModelConfig config = find_model(model).defaults();
    change(config);
    Graph graph;
    EXPECT_THROW(build_model(graph, model, config), Error);
  };
  refuses("gpt", [](ModelConfig& c) { c.block = "bert"; });
  refuses("gpt", [](ModelConfig& c) { c.kv_heads = 3; });
  refuses("char_lm", [](ModelConfig& c) { c.block = "llama"; });
  refuses("char_lm", [](ModelConfig& c) { c.kv_heads = 1; });
  refuses("transformer", [](ModelConfig& c) { c.named = "124M"; });
  refuses("char_lm", [](ModelConfig& c) { c.parametrization = "u-mup"; });
  refuses("gpt", [](ModelConfig& c) { c.parametrization = "mup"; });
  refuses("gpt", [](ModelConfig& c) { c.loss_multiplier = 2; });
  refuses("gpt", [](ModelConfig& c) {
    c.parametrization = "u-mup";
    c.residual_multiplier = 0;
  });
  ModelConfig config;
  EXPECT_THROW(config.set_named("123M"), Error);
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

// Counts of bytes would leave 64 bits, and layers fill the memory one by one.
TEST(Models, NoneIsTooLargeToBeCounted) {
  constexpr int64_t kHuge = int64_t{1} << 62, kLarge = int64_t{1} << 30;
  auto refuses = [](const char* model, auto change) {
    ModelConfig config;
    change(config);
    Graph graph;
    EXPECT_THROW(build_model(graph, model, config), Error);
  };
  refuses("mlp", [](ModelConfig& c) { c.depth = 1'000'000'000; });
  refuses("ffn", [](ModelConfig& c) { c.width = kHuge; });
  refuses("gpt", [](ModelConfig& c) { c.width = kHuge; });
  refuses("ffn", [](ModelConfig& c) { c.width = c.hidden = kLarge; });
  refuses("char_lm", [](ModelConfig& c) { c.batch = c.time = kLarge; });
  refuses("char_lm", [](ModelConfig& c) { c.attention_multiplier = 1e-300; });
}

}  // namespace
}  // namespace sigma1
