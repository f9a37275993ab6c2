// From a text to a pretrained model, as a person would go.
#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

// Documents of sentences in which the words follow one another, so that there is something to
// guess.
std::string documents() {
  std::string text;
  for (int document = 0; document < 40; ++document) {
    text += "title\n";
    for (int sentence = 0; sentence < 12; ++sentence) {
      for (int word = 0; word < 6; ++word) {
        text += std::string(2, static_cast<char>('a' + (document + sentence + word) % 26));
        text += word == 5 ? ". The " : " ";
      }
    }
    text += "\n\n";
  }
  return text;
}

std::string vocabulary() {
  std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ntitle\n.\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) lines += std::string(2, letter) + "\n";
  // Up to 64, so that no score is of a token that is none.
  for (int i = 0; i < 30; ++i) lines += "unused" + std::to_string(i) + "\n";
  return lines;
}

class Bert : public TrainRun {
 protected:
  void SetUp() override {
    TrainRun::SetUp();
    documents_ = write("documents.txt", documents());
    vocabulary_ = write("vocab.txt", vocabulary());
    pairs_ = (folder_ / "pairs").string();
  }

  Words prepare(const Words& more = {}) const {
    Words words{"bert",   "prepare", documents_, "--vocab", vocabulary_,
                "--time", "32",      "--out",    pairs_};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Words pretrain(const std::string& name, const Words& more = {}) const {
    Words words{"train", "--run", run(name), "--threads", "1", "--set", "train=" + pairs_};
    for (const char* setting :
         {"model=bert", "depth=2", "width=64", "ffn=128", "heads=2", "time=32", "batch=8",
          "predictions=5", "steps=120", "evaluate-every=60", "schedule=constant", "rate=2^-7",
          "probe=none", "monitor-every=0"}) {
      words.insert(words.end(), {"--set", setting});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::string documents_, vocabulary_, pairs_;
};

TEST_F(Bert, IsPretrainedAndResumed) {
  nlohmann::json counts = json_from(prepare());
  EXPECT_EQ(counts["documents"], 40);
  EXPECT_GT(counts["pairs"], 80);
  nlohmann::json whole = json_from(pretrain("whole"));
  auto lines = metrics("whole");
  double start = lines.front()["loss"], end = whole["valid_loss"];
  EXPECT_LT(end, start - 0.5);
  EXPECT_NEAR(end, whole["valid_mlm_loss"].get<double>() + whole["valid_nsp_loss"].get<double>(),
              1e-9);
  EXPECT_GT(whole["valid_mlm_accuracy"], 0.1);

  // Stopped half-way, it goes on with the same bits.
  ASSERT_EQ(run_program(pretrain("part", {"--set", "checkpoint-every=1"})).exit_code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(run("part") / "checkpoints")) {
    if (entry.path().filename() != "step-00000118.safetensors") {
      std::filesystem::remove(entry.path());
    }
  }
  ASSERT_EQ(run_program(resume("part")).exit_code, 0);
  EXPECT_TRUE(metrics("part") == lines);
  nlohmann::json judged = json_from({"eval", run("part"), "--threads", "1"});
  EXPECT_EQ(judged["loss"], whole["valid_loss"]);
  expect_mistake({"generate", run("part")}, {"bert"});
}

// Aligned, scaled and in FP8, it is the same model as an ordinary one for others.
// Its losses are of masked words: bits per character mean nothing.
TEST_F(Bert, ShowsItsProgress) {
  ASSERT_EQ(run_program(prepare()).exit_code, 0);
  std::string shown = printed_on_terminal(pretrain("shown", {"--set", "steps=3"}));
  EXPECT_NE(shown.find("step 3/3  loss "), std::string::npos) << shown;
  EXPECT_EQ(shown.find("bpc"), std::string::npos) << shown;
}

TEST_F(Bert, GoesOutAndComesBackTheSame) {
  ASSERT_EQ(run_program(prepare()).exit_code, 0);
  ASSERT_EQ(run_program(pretrain("run", {"--valid", pairs_})).exit_code, 0);
  double loss = json_from({"eval", run(), pairs_})["loss"];
  std::string out = folder_ / "out";
  ASSERT_EQ(run_program({"export", run(), "--format", "safetensors", "--out", out}).exit_code, 0);
  for (const char* method : {"none", "unit"}) {
    std::string in = folder_ / method;
    ASSERT_EQ(run_program({"import", out, "--out", in, "--method", method, "--precision", "fp32",
                           "--set", "time=32", "--set", "predictions=5"})
                  .exit_code,
              0);
    EXPECT_NEAR(json_from({"eval", in, pairs_})["loss"].get<double>(), loss, 0.01 * loss) << method;
  }
}

// Longer sequences go on from the weights of shorter ones.
TEST_F(Bert, ASecondPhaseStartsFromTheFirst) {
  ASSERT_EQ(run_program(prepare()).exit_code, 0);
  for (const char* method : {"loss-scale=512", "unit"}) {
    std::string first = std::string("first-") + method, second = std::string("second-") + method;
    Words settings{"--method",       method,  "--precision",         "fp16",  "--set",
                   "optimiser=lamb", "--set", "decay-vectors=false", "--set", "weight-decay=0.01"};
    ASSERT_EQ(run_program(pretrain(first, settings)).exit_code, 0) << method;
    settings.insert(settings.end(), {"--init", run(first), "--set", "steps=2"});
    ASSERT_EQ(run_program(pretrain(second, settings)).exit_code, 0) << method;
    double was = metrics(first).back()["valid_loss"], start = metrics(second).front()["loss"];
    EXPECT_NEAR(start, was, 0.25 * was) << method;
    EXPECT_LT(start, metrics(first).front()["loss"].get<double>() - 0.3) << method;
  }
}

TEST_F(Bert, MistakesAreOneLine) {
  expect_mistake({"bert", "prepare", folder_ / "none", "--vocab", vocabulary_, "--out", pairs_},
                 {"none"});
  expect_mistake({"bert", "prepare", documents_, "--vocab", documents_, "--out", pairs_},
                 {"[UNK]"});
  std::string unmasked = write("unmasked.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n");
  expect_mistake({"bert", "prepare", documents_, "--vocab", unmasked, "--out", pairs_},
                 {"unmasked.txt", "[MASK]"});
  expect_mistake(prepare({"--passes", "0"}), {"passes"});
  EXPECT_FALSE(std::filesystem::exists(pairs_));
  expect_mistake(pretrain("run"), {"pairs"});
  expect_mistake(pretrain("run", {"--set", "train=" + text_}), {"text.txt", "sigma1 bert prepare"});
  ASSERT_EQ(run_program(prepare()).exit_code, 0);
  expect_mistake(pretrain("run", {"--set", "time=64"}), {"time", "32", "64"});
  expect_mistake(pretrain("run", {"--init", run("none")}), {"none"});
}

}  // namespace
}  // namespace sigma1
