#include "sigma1/models/bert.h"

#include <gtest/gtest.h>

#include <map>

#include "sigma1/analysis/potentials.h"
#include "sigma1/base/error.h"
#include "sigma1/passes/unit_scaling.h"
#include "tests/models/training_graph.h"
#include "tests/theorem/gradient_spread.h"

namespace sigma1 {
namespace {

ModelConfig tiny() {
  ModelConfig config = bert_defaults();
  config.batch = 3;
  config.time = 12;
  config.positions = 16;
  config.width = 8;
  config.hidden = 24;
  config.predictions = 4;
  config.vocabulary = 30;
  return config;
}

std::map<std::string, Shape> parameters_of(const char* model) {
  Graph graph;
  build_model(graph, model, tiny());
  std::map<std::string, Shape> parameters;
  for (Value parameter : graph.parameters()) {
    const std::string& name = graph.node(parameter.node).name;
    if (!name.starts_with("layer1/")) parameters[name] = parameter.shape();
  }
  return parameters;
}

std::map<std::string, Shape> encoder_parameters() {
  return {{"embedding/token", {30, 8}},        {"embedding/position", {16, 8}},
          {"embedding/segment", {2, 8}},       {"embedding/norm/weight", {8}},
          {"embedding/norm/bias", {8}},        {"layer0/attention/qkv/weight", {8, 24}},
          {"layer0/attention/qkv/bias", {24}}, {"layer0/attention/out/weight", {8, 8}},
          {"layer0/attention/out/bias", {8}},  {"layer0/attention_norm/weight", {8}},
          {"layer0/attention_norm/bias", {8}}, {"layer0/ffn/up/weight", {8, 24}},
          {"layer0/ffn/up/bias", {24}},        {"layer0/ffn/down/weight", {24, 8}},
          {"layer0/ffn/down/bias", {8}},       {"layer0/ffn_norm/weight", {8}},
          {"layer0/ffn_norm/bias", {8}}};
}

// What checkpoints of other programs are mapped to.
TEST(Bert, ParametersAreCalledAsDocumented) {
  std::map<std::string, Shape> expected = encoder_parameters();
  expected.insert({{"mlm/dense/weight", {8, 8}},
                   {"mlm/dense/bias", {8}},
                   {"mlm/norm/weight", {8}},
                   {"mlm/norm/bias", {8}},
                   {"mlm/bias", {30}},
                   {"pooler/weight", {8, 8}},
                   {"pooler/bias", {8}},
                   {"nsp/weight", {8, 2}},
                   {"nsp/bias", {2}}});
  EXPECT_EQ(parameters_of("bert"), expected);
  expected = encoder_parameters();
  expected.insert({{"squad/weight", {8, 2}}, {"squad/bias", {2}}});
  EXPECT_EQ(parameters_of("bert_squad"), expected);
}

// Devlin et al. say 110 and 340 million, rounded and without the head of masked tokens.
TEST(Bert, NamedSizesAreThePublishedOnes) {
  for (auto [name, millions] : {std::pair{"base", 110.1}, {"large", 336.2}}) {
    ModelConfig config = bert_defaults();
    config.set_named(name);
    config.batch = 1;
    config.vocabulary = 30522;
    Graph graph;
    build_model(graph, "bert", config);
    int64_t count = 0;
    for (Value parameter : graph.parameters()) count += parameter.type().count();
    EXPECT_NEAR(static_cast<double>(count) / 1e6, millions, 0.06) << name;
    EXPECT_EQ(config.time, 128);
  }
}

// The table of tokens is read at both ends of the model, and two losses are added: every gradient
// must still be a multiple of the true one.
TEST(Bert, GradientsOfTheScaledModelAreRight) {
  for (const char* model : {"bert", "bert_squad"}) {
    for (Scheme scheme : {Scheme::paper, Scheme::exact}) {
      Graph graph;
      build_model(graph, model, tiny());
      graph.keep_outputs({"loss"});
      unit_scale(graph, ScalingOptions::of(scheme));
      EXPECT_NO_THROW(check_gradients_valid(graph));
      // A bias that all positions share changes no answer: its gradient is noise alone.
      if (model == std::string("bert_squad")) continue;
      EXPECT_LT(worst_gradient_spread(graph, training_bindings(graph)), 1e-9);
    }
  }
}

// The losses are what they are called, and weigh what they do in the plain model.
TEST(Bert, LossesKeepTheirValues) {
  for (Scheme scheme : {Scheme::paper, Scheme::exact}) {
    Graph graph;
    build_model(graph, "bert", tiny());
    unit_scale(graph, ScalingOptions::of(scheme));
    for (const char* loss : {"loss", "mlm_loss", "nsp_loss"}) {
      EXPECT_EQ(graph.node(graph.output(loss).node).alpha, 1) << loss;
    }
    ReferenceResult result = run_reference(graph, training_bindings(graph));
    EXPECT_NEAR(result[graph.output("loss")][0],
                result[graph.output("mlm_loss")][0] + result[graph.output("nsp_loss")][0], 1e-12);
  }
}

// What is padded must not be heard of elsewhere.
TEST(Bert, PaddingIsNotLookedAt) {
  Graph graph;
  build_model(graph, "bert", tiny());
  Bindings bindings = training_bindings(graph);
  Tensor& padding = bindings["padding"];
  for (int64_t i = 0; i < padding.count(); ++i) padding[i] = i % 12 < 8 ? 1 : 0;
  for (double& position : bindings["masked_positions"].data) {
    position = static_cast<double>(static_cast<int64_t>(position) % 8);
  }
  double before = run_reference(graph, bindings)[graph.output("loss")][0];
  Tensor& tokens = bindings["tokens"];
  for (int64_t i = 0; i < tokens.count(); ++i) {
    if (i % 12 >= 8) tokens[i] = static_cast<double>((static_cast<int64_t>(tokens[i]) + 7) % 30);
  }
  EXPECT_EQ(run_reference(graph, bindings)[graph.output("loss")][0], before);
}

TEST(Bert, MistakesAreNamed) {
  auto refuses = [](const char* model, auto change) {
    ModelConfig config = tiny();
    change(config);
    Graph graph;
    EXPECT_THROW(build_model(graph, model, config), Error);
  };
  refuses("bert", [](ModelConfig& c) { c.time = 17; });
  refuses("bert", [](ModelConfig& c) { c.predictions = 0; });
  refuses("bert", [](ModelConfig& c) { c.set_named("124M"); });
  refuses("gpt", [](ModelConfig& c) { c.set_named("base"); });
}

}  // namespace
}  // namespace sigma1
