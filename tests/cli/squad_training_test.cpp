// From a text to answers, as a person would go: pretrain, train, predict, score.
#include "sigma1/base/communicator.h"
#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

std::string vocabulary() {
  std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwhere\n.\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) lines += std::string(1, letter) + "\n";
  return lines;
}

std::string documents() {
  std::string text;
  for (int document = 0; document < 20; ++document) {
    for (int i = 0; i < 60; ++i) {
      text += static_cast<char>('a' + (7 * document + i * i) % 26);
      text += i % 6 == 5 ? ". " : " ";
    }
    text += "\n\n";
  }
  return text;
}

// Contexts of letters in which "z y" stands once, and is the answer.
nlohmann::json questions(int count, int first) {
  nlohmann::json paragraphs = nlohmann::json::array();
  for (int i = first; i < first + count; ++i) {
    std::string context;
    int place = i * 5 % 30;
    for (int k = 0; k < 30; ++k) {
      if (k == place) context += "Z, y ";
      context += static_cast<char>('a' + (i + k * k) % 20);
      context += " ";
    }
    nlohmann::json answer{{"text", "Z, y"}, {"answer_start", 2 * place}};
    paragraphs.push_back(
        {{"context", context},
         {"qas", {{{"id", std::to_string(i)}, {"question", "Where?"}, {"answers", {answer}}}}}});
  }
  return {{"version", "1.1"}, {"data", {{{"title", "T"}, {"paragraphs", paragraphs}}}}};
}

class SquadTraining : public TrainRun {
 protected:
  void SetUp() override {
    TrainRun::SetUp();
    documents_ = write("documents.txt", documents());
    vocabulary_ = write("vocab.txt", vocabulary());
    train_ = write("train.json", questions(40, 0).dump());
    valid_ = write("valid.json", questions(10, 100).dump());
  }

  void pretrain(const std::string& method) const {
    std::string pairs = folder_ / "pairs";
    ASSERT_EQ(run_program({"bert", "prepare", documents_, "--vocab", vocabulary_, "--time", "16",
                           "--out", pairs})
                  .exit_code,
              0);
    Words words{"train", "--run",    run("bert"), "--threads",   "1",   "--train",
                pairs,   "--method", method,      "--precision", "fp32"};
    for (const char* setting :
         {"model=bert", "depth=1", "width=32", "ffn=64", "heads=2", "positions=40", "time=16",
          "batch=4", "steps=4", "probe=none", "monitor-every=0"})
      words.insert(words.end(), {"--set", setting});
    ProgramResult result = run_program(words);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }

  // Windows of 24 tokens, so that every context takes several.
  Words answer(const Words& more = {}) const {
    Words words{"squad",   "train",     train_,  "--valid",    valid_,      "--init", run("bert"),
                "--vocab", vocabulary_, "--run", run("squad"), "--threads", "1"};
    for (const char* setting : {"time=24", "stride=10", "max-query=4", "batch=8", "steps=80",
                                "evaluate-every=40", "probe=none", "monitor-every=0"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::string documents_, vocabulary_, train_, valid_;
};

TEST_F(SquadTraining, LearnsToAnswer) {
  pretrain("unit");
  nlohmann::json trained = json_from(answer({"--rate", "2^-5"}));
  ASSERT_TRUE(trained.is_object());
  EXPECT_LT(trained["valid_loss"], 1.0);
  EXPECT_GT(trained["valid_f1"], 90);

  std::string out = folder_ / "predictions.json", best = folder_ / "best.json";
  ProgramResult predicted = run_program({"squad", "predict", valid_, "--checkpoint", run("squad"),
                                         "--out", out, "--best-out", best, "--threads", "1"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  nlohmann::json answers = nlohmann::json::parse(read_file(out));
  EXPECT_EQ(answers.size(), 10U);
  EXPECT_EQ(nlohmann::json::parse(read_file(best)).at("100").at(0).at("text"), answers["100"]);
  nlohmann::json scores = json_from({"squad", "evaluate", valid_, out});
  EXPECT_NEAR(scores["f1"], trained["valid_f1"].get<double>(), 1e-9);
  EXPECT_NEAR(scores["exact_match"], trained["valid_exact_match"].get<double>(), 1e-9);

  expect_mistake({"generate", run("squad")}, {"bert_squad"});
  expect_mistake({"squad", "predict", valid_, "--checkpoint", run("squad"), "--out", run("x"),
                  "--null-odds-out", run("y")},
                 {"--null-odds-out", "valid.json", "1.1"});
  // A finished run has nothing to do, and knows its data.
  EXPECT_EQ(run_program(resume("squad")).exit_code, 0);
}

// An epoch is as many steps as the ranks' batches together make.
TEST_F(SquadTraining, RanksShareTheSteps) {
  if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  pretrain("unit");
  auto squad = [&](const std::string& name, const char* accumulate) {
    Words words{"squad",   "train",     train_,    "--valid",   valid_,
                "--init",  run("bert"), "--vocab", vocabulary_, "--run",
                run(name), "--epochs",  "1",       "--threads", "1"};
    for (const char* setting : {"time=24", "stride=10", "max-query=4", "batch=8", "probe=none",
                                "monitor-every=0", accumulate})
      words.insert(words.end(), {"--set", setting});
    return words;
  };
  ASSERT_EQ(run_program(squad("one", "accumulate=2")).exit_code, 0);
  ProgramResult shared = run_any_program(mpirun(2, squad("two", "accumulate=1")));
  ASSERT_EQ(shared.exit_code, 0) << shared.err;
  auto one = metrics("one"), two = metrics("two");
  ASSERT_GT(one.size(), 2U);
  ASSERT_EQ(one.size(), two.size());
  for (size_t i = 0; i < one.size(); ++i) {
    for (const char* key : {"loss", "valid_loss"}) {
      EXPECT_NEAR(one[i].value(key, 0.0), two[i].value(key, 0.0), 1e-5) << key << " " << i;
    }
  }
}

TEST_F(SquadTraining, MistakesAreOneLine) {
  pretrain("none");
  expect_mistake({"squad", "train", train_, "--init", run("none"), "--vocab", vocabulary_},
                 {"none"});
  expect_mistake(answer({"--set", "max-query=30"}), {"time: ", "max-query 30", "got 24"});
  expect_mistake(answer({"--set", "time=64"}), {"time", "40", "64"});
  expect_mistake(
      {"squad", "train", train_, "--valid", valid_, "--init", run("bert"), "--vocab", vocabulary_,
       "--run", run("squad"), "--set", "time=24", "--set", "max-query=4", "--epochs", "1e300"},
      {"--epochs", "1000000000 steps", "1e+300"});
  nlohmann::json unanswered = questions(10, 100);
  unanswered["data"][0]["paragraphs"][7]["qas"][0]["answers"].clear();
  write("valid.json", unanswered.dump());
  expect_mistake(answer(), {"valid.json", "'T'", "'107'", "answer"});
  EXPECT_FALSE(std::filesystem::exists(run("squad")));
  // None of the files where one cannot be written.
  expect_mistake({"squad", "predict", valid_, "--checkpoint", run("bert"), "--out", run("x"),
                  "--best-out", run("nowhere") / "best.json"},
                 {"nowhere/best.json"});
  EXPECT_FALSE(std::filesystem::exists(run("x")));
  expect_mistake({"squad", "predict", valid_, "--checkpoint", run("bert"), "--out", run("x")},
                 {"bert_squad", "'bert'"});
}

}  // namespace
}  // namespace sigma1
