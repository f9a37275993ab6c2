#include "sigma1/train/squad_source.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "sigma1/base/error.h"
#include "tests/base/thread_ranks.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

class SquadSourceTest : public TemporaryFolderTest {
 protected:
  void SetUp() override {
    TemporaryFolderTest::SetUp();
    config_.set("model", "bert_squad");
    config_.size.batch = 3;
    config_.size.time = 12;
    config_.max_query = 4;
    config_.vocab_file =
        write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwho\na\nb\nc\nd\n");
    config_.train_text = write("train.json", data({"a", "b", "c", "d"}, "v2.0"));
    config_.valid_text = write("valid.json", data({"b"}, "v2.0"));
  }

  // An article for each answer, one question in it that has the answer and one that misplaces it.
  static std::string data(const std::vector<std::string>& answers, const std::string& version) {
    nlohmann::json articles = nlohmann::json::array();
    for (const std::string& answer : answers) {
      auto ask = [&](const std::string& kind, int start) {
        return nlohmann::json{{"id", answer + kind},
                              {"question", "who"},
                              {"answers", {{{"text", answer}, {"answer_start", start}}}}};
      };
      nlohmann::json paragraph{{"context", "d " + answer + " d"},
                               {"qas", {ask(" right", 2), ask(" wrong", 3)}}};
      articles.push_back({{"title", answer}, {"paragraphs", {paragraph}}});
    }
    return nlohmann::json{{"version", version}, {"data", articles}}.dump();
  }

  static const std::vector<int32_t>& indices(const ModelBatch& batch, const std::string& name) {
    for (const auto& [each, values] : batch.indices) {
      if (each == name) return values;
    }
    throw Bug("no input {}", name);
  }

  TrainConfig config_;
};

TEST_F(SquadSourceTest, EveryPassHasEveryUsableWindowOnce) {
  Corpus corpus = load_squad_corpus(config_);
  SquadCounts counts = count_squad(corpus);
  EXPECT_EQ(counts.windows, 4);
  EXPECT_EQ(counts.questions, 8);
  EXPECT_EQ(counts.left_out, 4);
  EXPECT_EQ(corpus.vocabulary.known(), 10U);
  // Three batches of four make three passes of four.
  std::vector<int32_t> answers;
  for (int64_t index = 0; index < 4; ++index) {
    ModelBatch batch = corpus.source->training(config_, index);
    const std::vector<int32_t>& tokens = indices(batch, "tokens");
    for (size_t row = 0; row < 3; ++row) {
      int32_t start = indices(batch, "start")[row];
      EXPECT_EQ(start, 4);
      answers.push_back(tokens[row * 12 + static_cast<size_t>(start)]);
    }
  }
  for (size_t pass = 0; pass < 3; ++pass) {
    auto first = answers.begin() + static_cast<ptrdiff_t>(4 * pass);
    EXPECT_EQ(std::set<int32_t>(first, first + 4).size(), 4U) << pass;
  }
  EXPECT_EQ(indices(corpus.source->training(config_, 2), "tokens"),
            indices(load_squad_corpus(config_).source->training(config_, 2), "tokens"));
}

// Ranks share a step's batches out as they do a text's, and all know how well the model does.
TEST_F(SquadSourceTest, RanksTrainAsOneThatAccumulates) {
  for (auto [key, value] : {std::pair{"depth", "1"},
                            {"width", "16"},
                            {"ffn", "32"},
                            {"positions", "12"},
                            {"precision", "fp32"},
                            {"accumulate", "2"}}) {
    config_.set(key, value);
  }
  Corpus corpus = load_squad_corpus(config_);
  Session one(config_, corpus);
  std::vector<double> losses = losses_of(one, 4);
  Evaluation valid = one.evaluate(*corpus.source);
  config_.accumulate = 1;
  run_as_ranks(2, [&](int) {
    Session session(config_, corpus);
    std::vector<double> shared = losses_of(session, 4);
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(shared[i], losses[i], 1e-6) << i;
    EXPECT_NEAR(session.evaluate(*corpus.source).loss, valid.loss, 1e-6);
  });
}

TEST_F(SquadSourceTest, WithoutValidationTheLastArticleIsKept) {
  config_.valid_text.clear();
  EXPECT_EQ(count_squad(load_squad_corpus(config_)).questions, 6);
  config_.train_text = write("one.json", data({"a"}, "v2.0"));
  EXPECT_NE(error_of([&] { load_squad_corpus(config_); }).find("one.json"), std::string::npos);
}

TEST_F(SquadSourceTest, SaysWhatDoesNotFit) {
  auto error = [&] { return error_of([&] { load_squad_corpus(config_); }); };
  config_.valid_text = write("old.json", data({"b"}, "1.1"));
  EXPECT_NE(error().find("old.json"), std::string::npos);
  config_.vocab_file.clear();
  EXPECT_NE(error().find("vocab-file"), std::string::npos);
  config_.train_text.clear();
  EXPECT_NE(error().find("train"), std::string::npos);
}

}  // namespace
}  // namespace sigma1
