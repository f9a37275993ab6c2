// What the trainer does for model `bert`, beside what it does for all.
#include "sigma1/train/bert_source.h"

#include <gtest/gtest.h>

#include <map>

#include "sigma1/base/error.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/ops/update.h"
#include "sigma1/train/batch_source.h"
#include "sigma1/train/parameter_rates.h"
#include "sigma1/train/session.h"

namespace sigma1 {
namespace {

TrainConfig bert_config() {
  TrainConfig config;
  config.set("model", "bert");
  for (auto [key, value] : {std::pair{"depth", "1"},
                            {"width", "16"},
                            {"ffn", "32"},
                            {"time", "16"},
                            {"batch", "2"},
                            {"positions", "16"},
                            {"optimiser", "lamb"},
                            {"weight-decay", "0.01"}}) {
    config.set(key, value);
  }
  config.size.vocabulary = 64;
  return config;
}

TEST(BertTraining, TheVocabularyProductIsNotRoundedToFp8) {
  TrainConfig config = bert_config();
  Precision precision = config.resolved_precision();
  EXPECT_EQ(precision.matmul_format("mlm/scores/linear"), "stored");
  EXPECT_EQ(precision.matmul_format("grad/mlm/scores/linear/matmul"), "stored");
  EXPECT_EQ(precision.matmul_format("mlm/dense/linear"), "fp8");
  EXPECT_EQ(precision.matmul_format("layer0/attention/qkv/linear"), "fp8");
}

// Each loss and its gradient are one pass over the scores, though the losses are added.
TEST(BertTraining, BothLossesAreFused) {
  for (const char* method : {"unit", "none", "loss-scale=512"}) {
    TrainConfig config = bert_config();
    config.method = method;
    StepGraph step = gradient_graph(config, {}, cpu_device());
    int fused = 0;
    for (const Node& node : step.graph->nodes()) {
      fused += node.op == &softmax_xent_with_grad_op ? 1 : 0;
    }
    EXPECT_EQ(fused, 2) << method;
  }
}

TEST(BertTraining, BiasesAndNormsNeedNotDecay) {
  TrainConfig config = bert_config();
  for (bool vectors : {true, false}) {
    config.decay_vectors = vectors;
    StepGraph update = update_graph(config, {});
    int matrices = 0, others = 0;
    for (const Node& node : update.graph->nodes()) {
      if (node.op != &lamb_step_op) continue;
      bool is_matrix = node.outputs.front().rank() > 1;
      ++(is_matrix ? matrices : others);
      EXPECT_EQ(node.attributes.get<double>("weight_decay"), is_matrix || vectors ? 0.01 : 0)
          << node.name;
    }
    EXPECT_EQ(matrices, 3 + 4 + 3);
    EXPECT_GT(others, 10);
  }
}

// LAMB's steps are in proportion to a parameter already.
TEST(BertTraining, UnderLambEveryParameterTakesTheWholeRate) {
  TrainConfig config = bert_config();
  std::shared_ptr<Graph> model = scaled_model(config, {});
  for (Value parameter : model->parameters()) {
    EXPECT_EQ(rate_factor(config, *model, parameter), 1);
  }
}

// The table of tokens is a projection too, at the model's end.
TEST(BertTraining, UnderAdamTablesOfPositionsAreSlower) {
  TrainConfig config = bert_config();
  config.optimiser = "adam";
  std::shared_ptr<Graph> model = scaled_model(config, {});
  std::map<std::string, double> factors;
  for (Value parameter : model->parameters()) {
    factors[model->node(parameter.node).name] = rate_factor(config, *model, parameter);
  }
  EXPECT_EQ(factors.at("embedding/token"), 1);
  EXPECT_EQ(factors.at("embedding/position"), 0.25);
  EXPECT_EQ(factors.at("layer0/ffn/up/weight"), 1);
  EXPECT_EQ(factors.at("layer0/ffn/up/bias"), 0.25);
}

TEST(BertTraining, NeedsAFileOfPairs) {
  EXPECT_THROW(load_bert_corpus(bert_config()), Error);
  EXPECT_NO_THROW(bert_config().check());
}

}  // namespace
}  // namespace sigma1
