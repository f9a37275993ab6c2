#include "sigma1/train/session.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

struct Case {
  std::vector<std::pair<const char*, std::string>> settings;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name;
  for (const auto& [key, value] : info.param.settings) name += value + "_";
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

TrainConfig config_of(const Case& each) {
  TrainConfig config = tiny_config();
  for (const auto& [key, value] : each.settings) {
    if (std::string_view(key) == "model") config = tiny_config({{"model", value}});
  }
  for (const auto& [key, value] : each.settings) {
    if (std::string_view(key) != "model") config.set(key, value);
  }
  return config;
}

// All that makes sense together: automatic scaling is for gradients that could overflow, and only
// casts before products have scales of their own.
std::vector<Case> methods_and_precisions() {
  std::vector<Case> cases;
  for (const char* method : {"none", "loss-scale=256", "auto-loss-scale", "unit"}) {
    for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
      cases.push_back({{{"method", method}, {"precision", precision}}});
    }
  }
  for (const char* method : {"per-tensor=current", "per-tensor=delayed"}) {
    cases.push_back({{{"method", method}, {"precision", "fp8"}}});
  }
  return cases;
}

std::vector<Case> models_and_optimisers() {
  std::vector<Case> cases;
  for (const char* method : {"none", "unit"}) {
    for (const char* context : {"conv", "rnn"}) {
      cases.push_back({{{"method", method}, {"context", context}}});
    }
    for (const char* norm : {"post", "none"}) {
      cases.push_back({{{"method", method}, {"norm", norm}}});
    }
    for (const char* optimiser : {"sgd", "adamw", "lamb"}) {
      cases.push_back({{{"method", method}, {"optimiser", optimiser}}});
    }
    cases.push_back({{{"method", method}, {"model", "gpt"}}});
    cases.push_back({{{"method", method}, {"model", "gpt"}, {"block", "llama"}}});
    cases.push_back(
        {{{"method", method}, {"model", "gpt"}, {"block", "llama"}, {"kv-heads", "1"}}});
    cases.push_back({{{"method", method}, {"accumulate", "2"}}});
  }
  for (const char* block : {"gpt2", "llama"}) {
    for (const char* precision : {"fp32", "fp8"}) {
      cases.push_back({{{"method", "unit"},
                        {"model", "gpt"},
                        {"block", block},
                        {"parametrization", "u-mup"},
                        {"precision", precision}}});
    }
  }
  for (const char* precision : {"fp16", "fp8"}) {
    cases.push_back({{{"method", "unit"},
                      {"model", "gpt"},
                      {"keep-attention", "true"},
                      {"precision", precision}}});
  }
  cases.push_back({{{"method", "unit"}, {"scheme", "exact"}, {"precision", "fp8"}}});
  cases.push_back({{{"method", "unit"}, {"align", "none"}, {"precision", "fp8"}}});
  cases.push_back({{{"method", "unit"}, {"precision", "fp8"}, {"context", "conv"}}});
  cases.push_back({{{"method", "unit"}, {"precision", "fp8"}, {"context", "rnn"}}});
  cases.push_back({{{"method", "unit"}, {"precision", "fp16"}, {"master-weights", "true"}}});
  return cases;
}

class Training : public testing::TestWithParam<Case> {};

TEST_P(Training, LossFalls) {
  Corpus corpus = tiny_corpus();
  Session session(config_of(GetParam()), corpus);
  Evaluation before = session.evaluate(corpus.valid);
  EXPECT_EQ(before.characters, static_cast<int64_t>(corpus.valid.size()));
  losses_of(session, 50);
  Evaluation after = session.evaluate(corpus.valid);
  EXPECT_LT(after.loss, before.loss - 0.4);
  EXPECT_EQ(session.step(), 50);
}
INSTANTIATE_TEST_SUITE_P(Methods, Training, testing::ValuesIn(methods_and_precisions()), name_of);
INSTANTIATE_TEST_SUITE_P(Models, Training, testing::ValuesIn(models_and_optimisers()), name_of);

// Less is held, and no bit is another.
TEST(Recomputing, GivesTheSameLossesFromLessMemory) {
  Corpus corpus = tiny_corpus();
  for (auto [model, keep_attention] :
       {std::pair{"char_lm", "false"}, {"gpt", "false"}, {"gpt", "true"}}) {
    for (const char* precision : {"fp32", "fp8"}) {
      auto session_of = [&, name = model, kept = keep_attention](const char* recompute) {
        TrainConfig config = tiny_config({{"model", name}, {"keep-attention", kept}});
        for (auto [key, value] : {std::pair{"method", "unit"},
                                  {"precision", precision},
                                  {"depth", "4"},
                                  {"batch", "8"},
                                  {"recompute", recompute}}) {
          config.set(key, value);
        }
        return std::make_unique<Session>(config, corpus);
      };
      auto plain = session_of("none");
      std::vector<double> losses = losses_of(*plain, 5);
      auto tensors = tensors_of(*plain);
      for (const char* what : {"norms", "activations", "blocks"}) {
        auto session = session_of(what);
        EXPECT_EQ(losses_of(*session, 5), losses) << model << " " << precision << " " << what;
        EXPECT_EQ(tensors_of(*session), tensors) << model << " " << precision << " " << what;
        EXPECT_LT(session->memory().activations, plain->memory().activations)
            << model << " " << precision << " " << what;
      }
    }
  }
}

class Restoring : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("sigma1_restoring_" + name_of({GetParam(), 0}));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

// Also a twin from the start: the same seed gives the same bits, whatever the number of threads.
TEST_P(Restoring, GoesOnBitForBit) {
  Corpus corpus = tiny_corpus();
  Session session(config_of(GetParam()), corpus);
  losses_of(session, 5);
  session.save(folder_);
  double valid = session.evaluate(corpus.valid).loss;
  std::vector<double> later = losses_of(session, 5);

  Session restored(latest_checkpoint(folder_), &corpus);
  EXPECT_EQ(restored.step(), 5);
  EXPECT_EQ(restored.evaluate(corpus.valid).loss, valid);
  EXPECT_EQ(losses_of(restored, 5), later);
  EXPECT_TRUE(tensors_of(restored) == tensors_of(session));

  set_thread_count(1);
  Session twin(config_of(GetParam()), corpus);
  losses_of(twin, 10);
  set_thread_count(0);
  EXPECT_TRUE(tensors_of(twin) == tensors_of(session));

  Session reader(latest_checkpoint(folder_), nullptr);
  EXPECT_EQ(reader.evaluate(corpus.valid).loss, valid);
}
INSTANTIATE_TEST_SUITE_P(Methods, Restoring, testing::ValuesIn(methods_and_precisions()), name_of);
INSTANTIATE_TEST_SUITE_P(Models, Restoring, testing::ValuesIn(models_and_optimisers()), name_of);

class SessionTest : public TemporaryFolderTest {
 protected:
  Corpus corpus_ = tiny_corpus();
};

TEST_F(SessionTest, AnotherSeedGivesOtherBits) {
  for (const char* precision : {"fp32", "bf16"}) {
    Session one(tiny_config({{"precision", precision}}), corpus_);
    Session other(tiny_config({{"precision", precision}, {"seed", "1"}}), corpus_);
    EXPECT_NE(losses_of(one, 2), losses_of(other, 2));
  }
}

// What a bfloat16 weight of about 1/4 cannot see, 2^-13, is seen by some, as chance has it.
TEST_F(SessionTest, StochasticRoundingMovesWhatNearestLeaves) {
  auto moved = [&](const char* rounding) {
    Session session(
        tiny_config({{"precision", "bf16"}, {"weight-rounding", rounding}, {"rate", "2^-14"}}),
        corpus_);
    auto before = session.store().read("layer0/ffn/up/weight");
    losses_of(session, 1);
    auto after = session.store().read("layer0/ffn/up/weight");
    size_t count = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      if (std::fabs(before[i]) > 0x1p-3) count += before[i] != after[i];
    }
    return count;
  };
  EXPECT_EQ(moved("nearest"), 0U);
  EXPECT_GT(moved("stochastic"), 0U);
}

TEST_F(SessionTest, MasterWeightsKeepWhatStoredOnesLose) {
  Session session(tiny_config({{"precision", "bf16"},
                               {"weight-rounding", "nearest"},
                               {"master-weights", "true"},
                               {"masked", "0"},
                               {"rate", "2^-14"}}),
                  corpus_);
  auto start = tensors_of(session);
  losses_of(session, 20);
  Cast bf16 = storage_cast("bf16");
  for (const std::string& name : parameters_of(session)) {
    std::vector<float> master = session.store().read(master_name(name));
    std::vector<float> stored = session.store().read(name);
    EXPECT_NE(master, start[master_name(name)]) << name;
    for (size_t i = 0; i < master.size(); ++i) {
      ASSERT_EQ(stored[i], static_cast<float>(quantize(master[i], bf16))) << name;
    }
  }
  Session without(tiny_config({{"precision", "fp32"}, {"master-weights", "true"}}), corpus_);
  EXPECT_FALSE(without.store().contains(master_name("head/weight")));
}

TEST_F(SessionTest, ARateTooLargeIsAnErrorThatNamesTensorAndStep) {
  for (auto [method, precision] : {std::pair{"none", "fp32"}, {"unit", "fp16"}, {"none", "fp8"}}) {
    Session session(tiny_config({{"method", method}, {"precision", precision}, {"rate", "1e30"}}),
                    corpus_);
    std::string message = error_of([&] { losses_of(session, 50); });
    std::string step = fmt::format("step {}: ", session.step() + 1);
    ASSERT_TRUE(message.starts_with(step)) << message;
    std::string named = message.substr(step.size(), message.find(" is not finite") - step.size());
    bool is_node = false;
    for (const Node& node : session.gradients().graph().nodes()) {
      is_node = is_node || named.starts_with(node.name);
    }
    EXPECT_TRUE(is_node) << message;
    EXPECT_NE(message.find("rate"), std::string::npos) << message;
  }
}

TEST_F(SessionTest, ATextShorterThanASequenceIsAnError) {
  Corpus corpus = tiny_corpus(tiny_text(16));
  for (const char* method : {"none", "unit"}) {
    std::string message = error_of([&] {
      Session session(tiny_config({{"method", method}}), corpus);
    });
    EXPECT_NE(message.find("16 characters, got 14"), std::string::npos) << message;
  }
}

TEST_F(SessionTest, AFormatThatNoCheckpointHoldsIsToldAtOnce) {
  std::string message = error_of([&] {
    Session session(tiny_config({{"weights", "e5m6"}}), corpus_);
  });
  EXPECT_NE(message.find("checkpoint"), std::string::npos) << message;
}

TEST_F(SessionTest, ACheckpointOfAnotherAlphabetIsAnError) {
  Session(tiny_config(), corpus_).save(folder_);
  Corpus other = tiny_corpus(tiny_text() + "Ω");
  Checkpoint checkpoint = latest_checkpoint(folder_);
  EXPECT_NE(error_of([&] { Session(checkpoint, &other); }).find("characters"), std::string::npos);
}

TEST_F(SessionTest, AStepIsStartedOnceAndFinishedOnce) {
  Corpus corpus = tiny_corpus();
  Session session(tiny_config({}), corpus), whole(tiny_config({}), corpus);
  EXPECT_EQ(session.most_ahead(), 1);
  EXPECT_THROW(session.finish_step(), Bug);
  session.start_step();
  EXPECT_EQ(session.step(), 1);
  EXPECT_EQ(session.ahead(), 1);
  EXPECT_THROW(session.start_step(), Bug);
  EXPECT_EQ(session.finish_step().loss, whole.train_step().loss);
  EXPECT_EQ(session.ahead(), 0);
}

TEST_F(SessionTest, AfterAStepThatIsNotFiniteTheModelIsAsBeforeIt) {
  Corpus corpus = tiny_corpus();
  Session session(tiny_config({{"rate", "1e30"}}), corpus);
  session.train_step();
  auto before = tensors_of(session);
  EXPECT_THROW(session.train_step(), NotFinite);
  EXPECT_EQ(session.step(), 1);
  EXPECT_TRUE(tensors_of(session) == before);
}

TEST_F(SessionTest, KnowsWhatItHolds) {
  Corpus corpus = tiny_corpus();
  Session session(tiny_config({}), corpus);
  Session::Memory memory = session.memory();
  int64_t kept = 0;
  for (const std::string& name : session.store().names()) kept += session.store().bytes(name);
  EXPECT_EQ(memory.kept, kept);
  EXPECT_GE(memory.activations, session.gradients().memory().arena);
}

TEST(LossScaler, HalvesAtOverflowAndGrowsAfterManyGoodSteps) {
  LossScaler scaler;
  scaler.saw(true);
  EXPECT_EQ(scaler.scale, 0x1p15);
  EXPECT_EQ(scaler.skipped, 1);
  for (int i = 0; i < 1999; ++i) scaler.saw(false);
  EXPECT_EQ(scaler.scale, 0x1p15);
  scaler.saw(false);
  EXPECT_EQ(scaler.scale, 0x1p16);
  for (int i = 0; i < 1999; ++i) scaler.saw(false);
  scaler.saw(true);  // starts the count anew
  scaler.saw(false);
  EXPECT_EQ(scaler.scale, 0x1p15);
  for (int i = 0; i < 100; ++i) scaler.saw(true);
  EXPECT_EQ(scaler.scale, 0x1p-14);
  for (int i = 0; i < 100 * 2000; ++i) scaler.saw(false);
  EXPECT_EQ(scaler.scale, 0x1p24);
}

// Positions that are nearly all alike: their gradients add up, times 2^16, beyond 65504.
TEST_F(SessionTest, AutomaticLossScalingSkipsWhatOverflowsAndGoesOn) {
  std::string text(2000, 'a');
  for (size_t i = 0; i < 80; ++i) text[25 * i + 7] = "bcdef"[i % 5];
  Corpus corpus = tiny_corpus(text);
  Session session(
      tiny_config({{"method", "auto-loss-scale"}, {"precision", "fp16"}, {"width", "64"}}), corpus);
  double before = session.evaluate(corpus.valid).loss;
  auto start = tensors_of(session);
  StepResult first = session.train_step();
  EXPECT_TRUE(first.skipped);
  EXPECT_TRUE(std::isfinite(first.loss));
  EXPECT_TRUE(tensors_of(session) == start) << "a skipped step changed something";
  EXPECT_EQ(session.loss_scaler().scale, 0x1p15);
  int64_t skipped = 1;
  for (int i = 1; i < 50; ++i) skipped += session.train_step().skipped;
  EXPECT_LT(skipped, 10);
  EXPECT_EQ(session.loss_scaler().skipped, skipped);
  EXPECT_EQ(session.loss_scaler().scale, std::ldexp(1.0, 16 - static_cast<int>(skipped)));
  EXPECT_EQ(session.store().read(kStepCount).front(), static_cast<float>(50 - skipped));
  EXPECT_LT(session.evaluate(corpus.valid).loss, before - 0.3);
}

}  // namespace
}  // namespace sigma1
