#include "sigma1/train/random_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sigma1/train/session.h"

namespace sigma1 {
namespace {

TrainConfig small(const char* model) {
  TrainConfig config;
  config.set("model", model);
  for (auto [key, value] : {std::pair{"depth", "1"},
                            {"width", "16"},
                            {"ffn", "32"},
                            {"time", "16"},
                            {"batch", "3"},
                            {"masked", "0"},
                            {"method", "none"},
                            {"precision", "fp32"}}) {
    config.set(key, value);
  }
  return config;
}

TEST(RandomInputs, AreAllThatBertReads) {
  constexpr int64_t kWords = 50;
  TrainConfig config = small("bert");
  Corpus corpus = random_corpus(config, kWords);
  ModelBatch batch = step_batch(config, corpus, 0);
  std::map<std::string, std::pair<size_t, int32_t>> expected{{"tokens", {48, 50}},
                                                             {"segments", {48, 2}},
                                                             {"masked_positions", {60, 16}},
                                                             {"masked_labels", {60, 50}},
                                                             {"next_sentence", {3, 2}}};
  ASSERT_EQ(batch.indices.size(), expected.size());
  for (const auto& [name, ids] : batch.indices) {
    auto [count, below] = expected.at(name);
    EXPECT_EQ(ids.size(), count) << name;
    auto [least, most] = std::ranges::minmax(ids);
    EXPECT_GE(least, 0) << name;
    EXPECT_LT(most, below) << name;
  }
  std::set<std::string> real;
  for (const auto& [name, numbers] : batch.numbers) {
    real.insert(name);
    EXPECT_EQ(std::ranges::count(numbers, 1.0F), std::ssize(numbers)) << name;
  }
  EXPECT_EQ(real, (std::set<std::string>{"padding", "masked_weights"}));
  EXPECT_NE(step_batch(config, corpus, 1).indices, batch.indices);
  EXPECT_EQ(step_batch(config, corpus, 0).indices, batch.indices);
}

// The losses are those of guessing: ln 64, of sentences ln 2, of starts and ends ln 16.
TEST(RandomInputs, TrainEveryModel) {
  for (auto [model, loss] : {std::pair{"bert", 4.852}, {"bert_squad", 2.773}, {"gpt", 4.1589}}) {
    TrainConfig config = small(model);
    Corpus corpus = random_corpus(config, 64);
    EXPECT_NEAR(Session(config, corpus).train_step().loss, loss, 0.6) << model;
  }
}

}  // namespace
}  // namespace sigma1
