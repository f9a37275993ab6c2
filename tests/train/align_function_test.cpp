#include "sigma1/train/align_function.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/rng.h"
#include "sigma1/ops/attention.h"
#include "sigma1/train/node_scales.h"
#include "sigma1/train/session.h"
#include "sigma1/train/stored_model.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

// Three quarters of each sequence are words, and of its predictions all but one are made.
ModelBatch bert_batch(const TrainConfig& config) {
  const ModelConfig& size = config.size;
  RandomStream random(1, "bert batch");
  uint64_t drawn = 0;
  auto indices = [&](int64_t count, int64_t limit) {
    std::vector<int32_t> list(static_cast<size_t>(count));
    for (int32_t& each : list)
      each = static_cast<int32_t>(random.bits(drawn++) % static_cast<uint64_t>(limit));
    return list;
  };
  int64_t tokens = size.batch * size.time, predictions = size.batch * size.predictions;
  ModelBatch batch;
  batch.indices = {{"tokens", indices(tokens, size.vocabulary)},
                   {"segments", indices(tokens, 2)},
                   {"masked_positions", indices(predictions, size.time * 3 / 4)},
                   {"masked_labels", indices(predictions, size.vocabulary)},
                   {"next_sentence", indices(size.batch, 2)}};
  std::vector<float> padding, weights;
  for (int64_t i = 0; i < tokens; ++i) padding.push_back(i % size.time < size.time * 3 / 4);
  for (int64_t i = 0; i < predictions; ++i) weights.push_back(i % size.predictions != 0);
  batch.numbers = {{"padding", padding}, {"masked_weights", weights}};
  return batch;
}

TrainConfig bert_config(const char* scheme = "paper") {
  TrainConfig config;
  for (auto [key, value] : {std::pair{"model", "bert"},
                            {"method", "unit"},
                            {"precision", "fp32"},
                            {"scheme", scheme},
                            {"depth", "3"},
                            {"width", "64"},
                            {"ffn", "256"},
                            {"heads", "2"},
                            {"time", "32"},
                            {"batch", "4"},
                            {"positions", "32"},
                            {"predictions", "4"}})
    config.set(key, value);
  config.size.vocabulary = 256;
  return config;
}

double relative_error(const std::vector<float>& expected, const std::vector<float>& found) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    double e = expected[i], f = found[i];
    error += (e - f) * (e - f);
    size += e * e;
  }
  return std::sqrt(error / size);
}

void expect_function(const TrainConfig& config, const ModelBatch& batch, const char* output,
                     double tolerance) {
  TrainConfig plain = config;
  plain.method = "none";
  auto scores_of = [&](const TrainConfig& of, const Alignment& alignment) {
    return initial_scores(of, alignment, batch).at(output);
  };
  std::vector<float> expected = scores_of(plain, {});
  Alignment alignment = align_function(config, batch).alignment;
  EXPECT_LT(relative_error(expected, scores_of(config, alignment)), tolerance) << output;
  EXPECT_GT(relative_error(expected, scores_of(config, {})), 0.1) << output;
}

// Scores are what losses read, so that they are equal, not only alike.
TEST(AlignFunction, BertComputesWhatThePlainModelDoes) {
  for (const char* scheme : {"paper", "exact"}) {
    TrainConfig config = bert_config(scheme);
    for (const char* output : {"mlm_scores", "nsp_scores"})
      expect_function(config, bert_batch(config), output, 1e-4);
  }
}

TEST(AlignFunction, SoDoCharacterModels) {
  Corpus corpus = tiny_corpus();
  for (const char* context : {"attention", "conv"}) {
    for (const char* norm : {"pre", "post"}) {
      TrainConfig config =
          tiny_config({{"method", "unit"}, {"depth", "2"}, {"context", context}, {"norm", norm}});
      config.size.vocabulary = static_cast<int64_t>(corpus.vocabulary.size());
      // A norm's epsilon knows the scale of what it reads.
      expect_function(config, step_batch(measured_config(config), corpus, 0), "scores", 2e-3);
    }
  }
}

TEST(AlignFunction, ARecurrenceIsNamed) {
  Corpus corpus = tiny_corpus();
  TrainConfig config = tiny_config({{"method", "unit"}, {"context", "rnn"}});
  config.size.vocabulary = static_cast<int64_t>(corpus.vocabulary.size());
  std::string message =
      error_of([&] { align_function(config, step_batch(measured_config(config), corpus, 0)); });
  EXPECT_NE(message.find("layer0/recurrence"), std::string::npos) << message;
}

TEST(AlignFunction, TellsRulesOfPaddingAndOfRowsWithoutGradient) {
  TrainConfig config = bert_config();
  Alignment alignment = align_function(config, bert_batch(config)).alignment;
  const auto& first = alignment.settings.at("layer0/attention/attention");
  const auto& last = alignment.settings.at("layer2/attention/attention");
  EXPECT_DOUBLE_EQ(first.at(kFilledKeys), 0.75);
  EXPECT_DOUBLE_EQ(first.at(kFilledQueries), 0.75);
  EXPECT_DOUBLE_EQ(last.at(kFilledKeys), 0.75);
  // The first position, and those of up to three predictions that count.
  EXPECT_GE(last.at(kFilledQueries), 1 / 32.0);
  EXPECT_LE(last.at(kFilledQueries), 4 / 32.0);
}

// The segment's vector is common to many positions: averaging leaves it as it is.
TEST(AlignFunction, AttentionIsDampedWhereValuesAreAlike) {
  TrainConfig config = bert_config();
  Alignment alignment = align_function(config, bert_batch(config)).alignment;
  EXPECT_LT(alignment.settings.at("layer0/attention/attention").at(kGain), 0.6);
}

TEST(AlignFunction, GradientsHaveUnitScaleWhereMostAre) {
  TrainConfig config = bert_config();
  ModelBatch batch = bert_batch(config);
  Alignment alignment = align_function(config, batch).alignment, without = alignment;
  for (auto& [node, settings] : without.settings) {
    settings.erase(kGradientGain);
    settings.erase(kGradientSquare);
  }
  auto mean_of = [&](const Alignment& each) {
    double logs = 0, count = 0;
    for (const auto& [node, gradient] :
         measure_nodes(scaled_model(config, each), 0, batch).gradients) {
      logs += std::log(gradient.rms / std::sqrt(gradient.rows));
      ++count;
    }
    return std::exp(logs / count);
  };
  EXPECT_NEAR(mean_of(alignment), 1, 1e-4);
  EXPECT_GT(std::fabs(std::log(mean_of(without))), 0.5);
}

TEST(AlignFunction, IsBertsDefaultAndNobodyElses) {
  TrainConfig config;
  EXPECT_EQ(config.resolved_align(), "measure");
  for (const char* model : {"bert", "bert_squad"}) {
    config.set("model", model);
    EXPECT_EQ(config.resolved_align(), "function");
  }
  config.align = "none";
  EXPECT_EQ(config.resolved_align(), "none");
}

// A run that is resumed or exported is the same model.
class AlignedSession : public TemporaryFolderTest {};
TEST_F(AlignedSession, IsKeptInCheckpoints) {
  Corpus corpus = tiny_corpus();
  Session session(tiny_config({{"method", "unit"}, {"align", "function"}}), corpus);
  ASSERT_FALSE(session.alignment().settings.empty());
  session.save(folder_);
  Checkpoint checkpoint = find_checkpoint(folder_);
  EXPECT_EQ(Session(checkpoint, &corpus).alignment(), session.alignment());
  EXPECT_EQ(read_model(checkpoint).alignment, session.alignment());
}

}  // namespace
}  // namespace sigma1
