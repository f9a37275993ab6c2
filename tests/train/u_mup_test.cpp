// u-µP: every parameter's rate, and what the rates are for, a function that changes as much
// whatever the width.
#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/ops/update.h"
#include "sigma1/train/parameter_rates.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

TrainConfig u_mup_config(Settings settings = {}) {
  TrainConfig config = tiny_config({{"model", "gpt"}, {"method", "unit"}, {"depth", "4"}});
  config.set("parametrization", "u-mup");
  for (const auto& [key, value] : settings) config.set(key, value);
  return config;
}

TEST(UMup, RatesAreTheTables) {
  TrainConfig config = u_mup_config({{"width", "64"}, {"ffn", "256"}});
  std::shared_ptr<Graph> model = scaled_model(config, {});
  std::map<std::string, double> found;
  for (Value parameter : model->parameters()) {
    found[model->node(parameter.node).name] = rate_factor(config, *model, parameter);
  }
  EXPECT_DOUBLE_EQ(found.at("embedding/token"), 1.0 / 8);
  EXPECT_DOUBLE_EQ(found.at("embedding/position"), 1.0 / 8);
  EXPECT_DOUBLE_EQ(found.at("layer0/attention/qkv/weight"), 1.0 / 16);
  EXPECT_DOUBLE_EQ(found.at("layer3/attention/out/bias"), 1.0 / 2);
  EXPECT_DOUBLE_EQ(found.at("layer3/ffn/down/weight"), 1.0 / 32);
  EXPECT_DOUBLE_EQ(found.at("shift/first"), 1);
  EXPECT_DOUBLE_EQ(found.at("head/weight"), 1);
}

// Adam's first step goes the rate's length in every direction that has a gradient.
TEST(UMup, EveryParameterMovesByItsRate) {
  Corpus corpus = tiny_corpus();
  for (const char* block : {"gpt2", "llama"}) {
    Session session(u_mup_config({{"block", block}, {"rate", "0.125"}, {"masked", "0"}}), corpus);
    std::shared_ptr<Graph> model = scaled_model(session.config(), {});
    auto before = tensors_of(session);
    session.train_step();
    for (Value parameter : model->parameters()) {
      const std::string& name = model->node(parameter.node).name;
      double expected = 0.125 * rate_factor(session.config(), *model, parameter), moved = 0;
      std::vector<float> after = session.store().read(name);
      for (size_t i = 0; i < after.size(); ++i) {
        moved = std::max(moved, std::fabs(static_cast<double>(after[i] - before[name][i])));
      }
      EXPECT_NEAR(moved, expected, 1e-3 * expected) << name;
    }
  }
}

TEST(UMup, WeightDecayDoesNotDependOnTheRate) {
  TrainConfig config = u_mup_config(
      {{"optimiser", "adamw"}, {"weight-decay", "0.01"}, {"rate", "0.25"}, {"width", "64"}});
  StepGraph update = update_graph(config, {});
  int steps = 0;
  for (const Node& node : update.graph->nodes()) {
    if (node.op != &adam_step_op) continue;
    ++steps;
    double rate = 0.25 * node.attributes.get<double>("rate_scale");
    EXPECT_NEAR(rate * node.attributes.get<double>("weight_decay"), 0.01, 1e-15) << node.name;
  }
  EXPECT_GT(steps, 10);
}

std::vector<double> scores_of(const Session& session, const Batch& batch) {
  StepGraph step = evaluation_graph(session.config(), session.alignment(), true);
  Store store;
  Program program(step.graph, store, step.stored);
  for (const std::string& name : parameters_of(session)) {
    store.write(name, session.store().read(name));
  }
  write_batch(store, batch);
  program.run(0);
  const Buffer& scores = program.output("scores");
  std::vector<float> room(static_cast<size_t>(scores.count()));
  const float* found = cpu::load(scores, 0, scores.count(), room.data());
  return {found, found + scores.count()};
}

// How far the scores of a batch go, as a root mean square, in four steps on that batch.
double change_of_function(const Corpus& corpus, int64_t width, const char* block, Settings more) {
  TrainConfig config = tiny_config({{"model", "gpt"}, {"depth", "2"}, {"masked", "0"}});
  config.set("block", block);
  config.size.width = width;
  config.size.hidden = 4 * width;
  config.size.heads = 2;
  for (const auto& [key, value] : more) config.set(key, value);
  Session session(config, corpus);
  Batch batch = batch_of(session.config(), corpus, 0);
  std::vector<double> before = scores_of(session, batch);
  losses_of(session, 4);
  std::vector<double> after = scores_of(session, batch);
  double sum = 0;
  for (size_t i = 0; i < after.size(); ++i) sum += (after[i] - before[i]) * (after[i] - before[i]);
  return std::sqrt(sum / static_cast<double>(after.size()));
}

// The same rate at eight times the width: under u-µP the function goes as far, but for a factor of
// √2 at most. Unit-scaled models, and regular ones, whose every weight moves by the rate, go two
// and three times as far.
TEST(UMup, AFunctionChangesAsMuchAtAnyWidth) {
  Corpus corpus = tiny_corpus();
  for (const char* block : {"gpt2", "llama"}) {
    auto growth = [&](Settings more) {
      return change_of_function(corpus, 256, block, more) /
             change_of_function(corpus, 32, block, more);
    };
    double u_mup = growth({{"method", "unit"}, {"parametrization", "u-mup"}, {"rate", "2^-2"}});
    double unit = growth({{"method", "unit"}, {"rate", "2^-6"}});
    double regular = growth({{"method", "none"}, {"rate", "2^-10"}});
    EXPECT_LT(std::fabs(std::log2(u_mup)), 0.5) << block << " " << u_mup;
    EXPECT_GT(std::log2(unit), 0.9) << block << " " << unit;
    EXPECT_GT(std::log2(regular), 1.5) << block << " " << regular;
  }
}

}  // namespace
}  // namespace sigma1
