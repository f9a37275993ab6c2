// Several ranks train the model that one would have trained on the same batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "sigma1/base/communicator.h"
#include "sigma1/data/bert_instances.h"
#include "sigma1/train/bert_source.h"
#include "sigma1/train/run_folder.h"
#include "tests/base/thread_ranks.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

struct Trained {
  std::vector<double> losses;
  Evaluation valid;
  Tensors tensors;                // of the first rank
  std::vector<int64_t> kept;      // bytes, by rank
  std::vector<Tensors> of_ranks;  // parameters only
};

Tensors parameters(const Session& session) {
  Tensors tensors;
  for (const std::string& name : parameters_of(session)) tensors[name] = session.store().read(name);
  return tensors;
}

// What the model is judged on.
Evaluation validate(Session& session, const Corpus& corpus) {
  return corpus.source ? session.evaluate(*corpus.source) : session.evaluate(corpus.valid);
}

// `count` ranks for some steps, from a checkpoint where there is one, and saved when asked.
Trained train_ranks(int count, const TrainConfig& config, int steps,
                    const std::filesystem::path& from = {}, const std::filesystem::path& to = {}) {
  Corpus corpus = config.reads_pairs() ? load_bert_corpus(config) : tiny_corpus();
  Trained result;
  result.of_ranks.resize(static_cast<size_t>(count));
  result.kept.resize(static_cast<size_t>(count));
  run_as_ranks(count, [&](int rank) {
    std::optional<Session> session;
    if (from.empty()) {
      session.emplace(config, corpus);
    } else {
      session.emplace(latest_checkpoint(from), &corpus);
    }
    std::vector<double> losses = losses_of(*session, steps);
    Evaluation valid = validate(*session, corpus);
    if (!to.empty()) session->save(to);
    result.of_ranks[static_cast<size_t>(rank)] = parameters(*session);
    result.kept[static_cast<size_t>(rank)] = session->memory().kept;
    if (rank > 0) return;
    result.losses = losses;
    result.valid = valid;
    result.tensors = tensors_of(*session);
  });
  return result;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

// Gradients in fp32 are added in the same order whether ranks or accumulation make them.
void expect_ranks_are_one_that_accumulates(TrainConfig config) {
  for (int count : {2, 4}) {
    SCOPED_TRACE(config.model + " " + config.method + " " + std::to_string(count));
    config.accumulate = 1;
    Trained many = train_ranks(count, config, 6);
    config.accumulate = count;
    Trained one = train_ranks(1, config, 6);
    EXPECT_LT(largest_difference(many.losses, one.losses), 1e-6);
    EXPECT_NEAR(many.valid.loss, one.valid.loss, 1e-6);
    EXPECT_EQ(many.valid.characters, one.valid.characters);
    config.accumulate = count / 2;
    EXPECT_LT(largest_difference(train_ranks(2, config, 6).losses, one.losses), 1e-6);
  }
}

TEST(RanksTest, ManyRanksAreOneThatAccumulates) {
  for (const char* model : {"char_lm", "gpt"}) {
    for (const char* method : {"unit", "none"}) {
      expect_ranks_are_one_that_accumulates(tiny_config({{"model", model}, {"method", method}}));
    }
  }
}

class BertRanks : public TemporaryFolderTest {
 protected:
  static constexpr uint32_t kTime = 16, kWords = 60;

  // Pairs of six and seven words that follow one another.
  std::string pairs() {
    std::vector<uint16_t> records;
    for (uint16_t i = 0; i < 60; ++i) {
      auto word = [&](int k) { return static_cast<uint16_t>(4 + (7 * i + k) % (kWords - 4)); };
      records.insert(records.end(), {16, 8, static_cast<uint16_t>(i % 2), 1});
      for (int k = 0; k < 6; ++k) records.push_back(word(k));
      records.push_back(2);
      for (int k = 6; k < 13; ++k) records.push_back(word(k + 20 * (i % 2)));
      records.push_back(2);
    }
    std::string path = folder_ / "pairs.bert";
    write_bert_instances(path, {kTime, kWords, {.pad = 0, .cls = 1, .sep = 2, .mask = 3}}, records);
    return path;
  }
};

TEST_F(BertRanks, ManyAreOneThatAccumulates) {
  for (const char* method : {"unit", "none"}) {
    expect_ranks_are_one_that_accumulates(tiny_config({{"model", "bert"},
                                                       {"method", method},
                                                       {"train", pairs()},
                                                       {"optimiser", "lamb"},
                                                       {"predictions", "3"}}));
  }
}

// In few bits too: b counts all ranks, so that a sum over them has the scale of one batch.
TEST(RanksTest, ManyRanksAreOneInFewBits) {
  for (const char* precision : {"fp16", "fp8"}) {
    for (const char* reduce : {"fp32", "bf16", "fp16"}) {
      SCOPED_TRACE(std::string(precision) + " " + reduce);
      TrainConfig config =
          tiny_config({{"method", "unit"}, {"precision", precision}, {"reduce", reduce}});
      Trained many = train_ranks(4, config, 6);
      config.accumulate = 4;
      Trained one = train_ranks(1, config, 6);
      EXPECT_LT(largest_difference(many.losses, one.losses), 0.02);
    }
  }
}

// The gradients of a first step, as their sum travels in a format.
std::vector<float> first_sums(const char* reduce) {
  TrainConfig config = tiny_config({{"method", "unit"}, {"reduce", reduce}});
  Corpus corpus = tiny_corpus();
  std::vector<float> sums;
  run_as_ranks(4, [&](int rank) {
    Session session(config, corpus);
    session.train_step();
    if (rank > 0) return;
    for (const std::string& name : parameters_of(session)) {
      std::vector<float> each = session.store().read(gradient_name(name));
      sums.insert(sums.end(), each.begin(), each.end());
    }
  });
  return sums;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / size);
}

// Unit-scaled numbers are where a format has all its bits: 8 of bf16, 11 of fp16.
TEST(RanksTest, SumsLoseWhatTheirFormatLoses) {
  std::vector<float> exact = first_sums("fp32");
  double bf16 = relative_error(first_sums("bf16"), exact);
  double fp16 = relative_error(first_sums("fp16"), exact);
  EXPECT_GT(bf16, 0x1p-11);
  EXPECT_LT(bf16, 0x1p-8);
  EXPECT_GT(fp16, 0x1p-14);
  EXPECT_LT(fp16, 0x1p-11);
}

TEST(RanksTest, AllRanksHaveTheSameWeightsAndEveryRunTheSameBits) {
  TrainConfig config = tiny_config({{"method", "unit"}, {"precision", "fp8"}, {"reduce", "bf16"}});
  Trained first = train_ranks(4, config, 5), second = train_ranks(4, config, 5);
  for (const Tensors& each : first.of_ranks) EXPECT_TRUE(each == first.of_ranks[0]);
  EXPECT_TRUE(first.tensors == second.tensors);
  EXPECT_EQ(first.losses, second.losses);
}

TEST(RanksTest, SharingTheOptimisersStateChangesNoBitAndNeedsLess) {
  for (const char* optimiser : {"adam", "lamb", "sgd"}) {
    SCOPED_TRACE(optimiser);
    TrainConfig config = tiny_config({{"method", "unit"},
                                      {"precision", "fp16"},
                                      {"master-weights", "true"},
                                      {"optimiser", optimiser}});
    Trained whole = train_ranks(3, config, 5);
    config.shard = "optimiser";
    Trained shared = train_ranks(3, config, 5);
    EXPECT_EQ(shared.losses, whole.losses);
    for (const Tensors& each : shared.of_ranks) EXPECT_TRUE(each == whole.of_ranks[0]);
    for (size_t i = 0; i < 3; ++i) EXPECT_LT(shared.kept[i], whole.kept[i]);
  }
}

// Weights travel in 8 bits wherever products read them so, and nothing is different for it.
TEST(RanksTest, HowWeightsAreGatheredChangesNoBit) {
  for (const char* optimiser : {"adam", "lamb", "sgd"}) {
    for (const char* weights : {"stochastic", "nearest", "master"}) {
      SCOPED_TRACE(std::string(optimiser) + " " + weights);
      TrainConfig config = tiny_config({{"model", "gpt"},
                                        {"method", "unit"},
                                        {"precision", "fp8"},
                                        {"accumulate", "2"},
                                        {"optimiser", optimiser}});
      bool master = std::string_view(weights) == "master";
      config.set(master ? "master-weights" : "weight-rounding", master ? "true" : weights);
      Trained whole = train_ranks(3, config, 5);
      config.shard = "optimiser";
      for (const char* gather : {"narrow", "stored"}) {
        config.gather = gather;
        Trained shared = train_ranks(3, config, 5);
        EXPECT_EQ(shared.losses, whole.losses) << gather;
        EXPECT_EQ(shared.valid.loss, whole.valid.loss) << gather;
        for (const Tensors& each : shared.of_ranks) EXPECT_TRUE(each == whole.of_ranks[0]);
      }
    }
  }
}

// Between steps only owners have the parameters of which others read copies.
TEST(RanksTest, CopiesTravelInsteadOfWeights) {
  TrainConfig config = tiny_config(
      {{"model", "gpt"}, {"method", "unit"}, {"precision", "fp8"}, {"shard", "optimiser"}});
  Corpus corpus = tiny_corpus();
  std::mutex mutex;
  std::map<std::string, std::set<std::vector<float>>> before, after, copies;
  run_as_ranks(2, [&](int) {
    Session session(config, corpus);
    losses_of(session, 2);
    EXPECT_FALSE(session.has_whole_weights());
    Store other;
    EXPECT_THROW(session.copy_parameters(session.gradients().graph(), other), Bug);
    auto note = [&](auto& to, const std::string& suffix) {
      std::lock_guard lock(mutex);
      for (const std::string& name : parameters_of(session)) {
        if (session.store().contains(name + suffix))
          to[name].insert(session.store().read(name + suffix));
      }
    };
    note(before, "");
    note(copies, "/as_e4m3");
    session.share_weights();
    EXPECT_TRUE(session.has_whole_weights());
    note(after, "");
  });
  EXPECT_EQ(copies.size(), 4U);
  for (const auto& [name, found] : before) {
    EXPECT_EQ(found.size(), copies.contains(name) ? 2U : 1U) << name;
    EXPECT_EQ(after[name].size(), 1U) << name;
  }
  for (const auto& [name, found] : copies) EXPECT_EQ(found.size(), 1U) << name;
}

TEST(RanksTest, WhatIsReadAsStoredTravelsSo) {
  TrainConfig config = tiny_config({{"model", "gpt"}, {"precision", "fp8"}, {"method", "unit"}});
  config.size.vocabulary = 30;
  config.world = 2;
  StepGraph gradients = gradient_graph(config, {}, cpu_device());
  std::vector<WeightCopy> copies = keep_weight_casts(*gradients.graph);
  EXPECT_TRUE(gathered_as_copies(config, *gradients.graph, copies).empty()) << "nobody owns any";
  config.shard = "optimiser";
  std::set<std::string> narrow = gathered_as_copies(config, *gradients.graph, copies);
  EXPECT_EQ(narrow.size(), copies.size());
  for (const std::string& name : narrow) EXPECT_NE(name.find("layer0/"), std::string::npos) << name;
  config.gather = "stored";
  EXPECT_TRUE(gathered_as_copies(config, *gradients.graph, copies).empty());
}

// A rank alone that looks around whenever it is to send something.
class Watching : public Communicator {
 public:
  std::function<void()> look = [] {};
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void exchange(std::span<const Piece> sends, std::span<const Piece> receives) override {
    look();
    if (sends[0].data == receives[0].data) return;
    std::copy_n(sends[0].data, sends[0].bytes, receives[0].data);
  }
  [[noreturn]] void abort(int) override { std::terminate(); }
};

TEST(RanksTest, BucketsLeaveWhileBackwardIsUnderWay) {
  TrainConfig config = tiny_config({{"model", "gpt"}, {"depth", "4"}, {"collectives", "always"}});
  config.bucket = 0x1p-10;
  Corpus corpus = tiny_corpus();
  Watching alone;
  UseRanks use(alone);
  Session session(config, corpus);
  auto zeros = [&] {
    return std::ranges::count_if(parameters_of(session), [&](const auto& name) {
      std::vector<float> gradient = session.store().read(gradient_name(name));
      return std::ranges::all_of(gradient, [](float each) { return each == 0; });
    });
  };
  std::vector<int64_t> missing;  // gradients, at each exchange
  alone.look = [&] { missing.push_back(zeros()); };
  session.start_step();
  alone.look = [] {};
  session.finish_step();
  ASSERT_GT(missing.size(), 8U);
  EXPECT_GT(missing.front(), std::ssize(parameters_of(session)) / 2);
  EXPECT_EQ(missing.back(), zeros());
  EXPECT_TRUE(std::ranges::is_sorted(missing, std::greater()));
}

TEST(RanksTest, NeitherBucketsNorMeetingOneselfChangeABit) {
  TrainConfig config =
      tiny_config({{"method", "unit"}, {"precision", "fp16"}, {"accumulate", "2"}});
  for (const char* shard : {"none", "optimiser"}) {
    config.shard = shard;
    config.bucket = 32;
    Trained one_bucket = train_ranks(2, config, 5);
    config.bucket = 0x1p-10;  // a KB
    Trained many = train_ranks(2, config, 5);
    EXPECT_EQ(many.losses, one_bucket.losses);
    EXPECT_TRUE(many.tensors == one_bucket.tensors);
    Trained alone = train_ranks(1, config, 5);
    config.collectives = "always";
    Trained meets_itself = train_ranks(1, config, 5);
    EXPECT_EQ(meets_itself.losses, alone.losses);
    EXPECT_TRUE(meets_itself.tensors == alone.tensors);
    config.collectives = "needed";
  }
}

TEST(RanksTest, AConfigSaysHowManyRanksAStepIsMadeFor) {
  TrainConfig config = tiny_config({{"ranks", "4"}, {"method", "unit"}});
  Trained planned = train_ranks(1, config, 4);
  config.ranks = 0;
  EXPECT_LT(largest_difference(planned.losses, train_ranks(4, config, 4).losses), 1e-6);
  config.ranks = 3;
  EXPECT_THROW(train_ranks(2, config, 1), Error);
}

TEST(RanksTest, HistoriesOfDelayedCastsAreTheSameEverywhere) {
  TrainConfig config = tiny_config({{"method", "per-tensor=delayed"}, {"precision", "fp8"}});
  Trained trained = train_ranks(3, config, 4);
  for (const Tensors& each : trained.of_ranks) EXPECT_TRUE(each == trained.of_ranks[0]);
}

TEST(RanksTest, WhatOneRankFindsNotFiniteStopsAll) {
  TrainConfig config = tiny_config({{"method", "none"}, {"rate", "1e30"}, {"shard", "optimiser"}});
  Corpus corpus = tiny_corpus();
  std::mutex mutex;
  std::vector<std::string> told;
  run_as_ranks(3, [&](int) {
    Session session(config, corpus);
    try {
      losses_of(session, 5);
    } catch (const NotFinite& error) {
      std::lock_guard lock(mutex);
      told.emplace_back(error.what());
    }
  });
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0], told[1]);
  EXPECT_EQ(told[0], told[2]);
}

TEST(RanksTest, AStepThatIsTooLargeIsSkippedByAll) {
  TrainConfig config = tiny_config({{"method", "auto-loss-scale"},
                                    {"precision", "fp16"},
                                    {"shard", "optimiser"},
                                    {"width", "64"}});
  std::string text(2000, 'a');  // as one rank's test has it: all alike, gradients add up
  for (size_t i = 0; i < 80; ++i) text[25 * i + 7] = "bcdef"[i % 5];
  Corpus corpus = tiny_corpus(text);
  run_as_ranks(2, [&](int) {
    Session session(config, corpus);
    losses_of(session, 6);
    std::vector<double> skipped =
        gather_numbers(ranks(), static_cast<double>(session.loss_scaler().skipped));
    EXPECT_GT(skipped[0], 0);
    EXPECT_EQ(skipped[0], skipped[1]);
  });
}

class RankCheckpoints : public TemporaryFolderTest {};

TEST_F(RankCheckpoints, GoOnWithTheSameBitsInAsManyRanksAndWithTheSameStepInOthers) {
  for (const char* shard : {"none", "optimiser"}) {
    SCOPED_TRACE(shard);
    TrainConfig config = tiny_config({{"method", "unit"}, {"precision", "fp8"}, {"shard", shard}});
    std::filesystem::path folder = folder_ / shard;
    Trained whole = train_ranks(4, config, 8);
    Trained begun = train_ranks(4, config, 5, {}, folder);
    Trained resumed = train_ranks(4, config, 3, folder);
    EXPECT_TRUE(resumed.tensors == whole.tensors);
    EXPECT_EQ(resumed.losses, std::vector(whole.losses.begin() + 5, whole.losses.end()));
    for (int count : {1, 2}) {
      Trained other = train_ranks(count, config, 3, folder);
      EXPECT_LT(largest_difference(other.losses, resumed.losses), 0.01) << count << " ranks";
    }
    EXPECT_THROW(train_ranks(3, config, 1, folder), Error);
  }
}

// The batches of a step are numbered, whoever computes them: a run can grow too.
TEST_F(RankCheckpoints, GoOnInMoreOrFewerRanksThanTheyWereBegunWith) {
  TrainConfig config =
      tiny_config({{"method", "unit"}, {"accumulate", "2"}, {"shard", "optimiser"}});
  Trained whole = train_ranks(2, config, 8);
  train_ranks(2, config, 5, {}, folder_ / "two");
  for (int count : {4, 1}) {
    SCOPED_TRACE(std::to_string(count) + " ranks");
    std::filesystem::path there = folder_ / std::to_string(count);
    Trained other = train_ranks(count, config, 2, folder_ / "two", there);
    Trained back = train_ranks(2, config, 1, there);
    other.losses.push_back(back.losses.front());
    std::vector expected(whole.losses.begin() + 5, whole.losses.end());
    EXPECT_LT(largest_difference(other.losses, expected), 1e-6);
    EXPECT_NEAR(back.valid.loss, whole.valid.loss, 1e-6);
  }
  try {
    train_ranks(3, config, 1, folder_ / "two");
    ADD_FAILURE() << "3 ranks share 4 batches";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "ranks: expected a number that divides the 4 batches of a step (accumulate 2 x "
                 "ranks 2), got 3");
  }
}

TEST_F(RankCheckpoints, AreTheSameFileWhoeverKeptTheState) {
  TrainConfig config = tiny_config({{"method", "unit"}, {"precision", "fp16"}});
  train_ranks(3, config, 3, {}, folder_ / "whole");
  config.shard = "optimiser";
  train_ranks(3, config, 3, {}, folder_ / "shared");
  Checkpoint whole = latest_checkpoint(folder_ / "whole");
  Checkpoint shared = latest_checkpoint(folder_ / "shared");
  ASSERT_EQ(whole.file.tensors().size(), shared.file.tensors().size());
  for (const StoredTensor& each : whole.file.tensors()) {
    EXPECT_TRUE(std::ranges::equal(each.data, shared.file.at(each.name).data)) << each.name;
  }
}

TEST_F(RankCheckpoints, RoomIsAskedForBeforeTraining) {
  check_writable(folder_ / "new" / "checkpoints");
  check_room(folder_, 4, 1000);
  EXPECT_THROW(check_room(folder_, 4, int64_t{1} << 58), Error);
  EXPECT_THROW(check_writable("/proc/none"), Error);
  TrainConfig config = tiny_config({{"steps", "100"}, {"checkpoint-every", "10"}, {"keep", "3"}});
  EXPECT_EQ(checkpoints_at_once(config), 4);
  config.checkpoint_every = 100;
  EXPECT_EQ(checkpoints_at_once(config), 1);
}

}  // namespace
}  // namespace sigma1
