// Sweeps of invented runs: what is run, what is remembered, what is written. Real ones are in
// tests/cli.
#include "sigma1/train/sweep.h"

#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/train/trainer.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

class SweepTest : public TemporaryFolderTest {
 protected:
  SweepTest() {
    plan_.axes = {parse_axis("context=conv|rnn"), parse_axis("depth=1|2")};
    plan_.ladder = parse_ladder("1:16");
  }

  SweepResult run(const RunFunction& function, int jobs = 1) {
    return sweep(plan_, {.folder = folder_ / "s", .jobs = jobs}, function);
  }
  std::string csv() { return read_file(folder_ / "s" / "sweep.csv"); }

  // Best at rate 4, worse by more than the threshold at 8; recurrence diverges there.
  RunFunction parabola() {
    return [this](const SweepRun& run) -> std::optional<RunOutcome> {
      std::lock_guard lock(mutex_);
      ran_.push_back(run.folder.filename());
      double rate = run.config.rate;
      if (run.config.size.context == "rnn" && rate == 8) return RunOutcome{.diverged = true};
      double distance = std::log2(rate) - 2;
      double value = static_cast<double>(run.config.size.depth) + 0.2 * distance * distance;
      return RunOutcome{.valid_bpc = value, .steps = 5, .seconds = 0.5};
    };
  }

  SweepPlan plan_;
  std::mutex mutex_;
  std::vector<std::string> ran_;
};

TEST_F(SweepTest, ClimbsALadderForEveryCombination) {
  SweepResult result = run(parabola());
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.keys, (std::vector<std::string>{"context", "depth"}));
  ASSERT_EQ(result.combinations.size(), 4U);
  for (const SweptCombination& each : result.combinations) {
    ASSERT_EQ(each.rows.size(), 4U);
    ASSERT_NE(each.best(), nullptr);
    EXPECT_EQ(each.best()->rate, 4);
    EXPECT_EQ(each.best()->outcome.valid_bpc, each.combination.config.size.depth);
    bool diverges = each.combination.config.size.context == "rnn";
    EXPECT_EQ(each.rows.back().outcome.diverged, diverges);
  }
  EXPECT_EQ(ran_.size(), 16U);
  EXPECT_EQ(short_name(result, result.combinations[3]), "rnn 2");
}

TEST_F(SweepTest, WritesOneLineForEachRun) {
  plan_.axes.pop_back();
  run(parabola());
  EXPECT_EQ(csv(),
            "context,rate,valid_bpc,status,steps,seconds,folder\n"
            "conv,1,8.8,ok,5,0.500,context=conv_rate=2^0\n"
            "conv,2,8.2,ok,5,0.500,context=conv_rate=2^1\n"
            "conv,4,8,ok,5,0.500,context=conv_rate=2^2\n"
            "conv,8,8.2,ok,5,0.500,context=conv_rate=2^3\n"
            "rnn,1,8.8,ok,5,0.500,context=rnn_rate=2^0\n"
            "rnn,2,8.2,ok,5,0.500,context=rnn_rate=2^1\n"
            "rnn,4,8,ok,5,0.500,context=rnn_rate=2^2\n"
            "rnn,8,,diverged,0,0.000,context=rnn_rate=2^3\n");
}

TEST_F(SweepTest, SideBySideGivesTheSame) {
  run(parabola());
  std::string alone = csv();
  std::filesystem::remove_all(folder_ / "s");
  run(parabola(), 4);
  EXPECT_EQ(csv(), alone);
}

TEST_F(SweepTest, FinishedRunsAreNotRunAgain) {
  run(parabola());
  std::string whole = csv();
  ran_.clear();
  EXPECT_TRUE(run(parabola()).finished);
  EXPECT_EQ(ran_.size(), 0U);
  std::filesystem::remove(folder_ / "s" / "context=conv_depth=2_rate=2^1" / "result.json");
  run(parabola());
  EXPECT_EQ(ran_, std::vector<std::string>{"context=conv_depth=2_rate=2^1"});
  EXPECT_EQ(csv(), whole);
}

TEST_F(SweepTest, GoesOnAfterAStopAnywhere) {
  run(parabola());
  std::string whole = csv();
  for (size_t runs : {0, 9}) {
    std::filesystem::remove_all(folder_ / "s");
    ran_.clear();
    std::atomic<bool> stopped{false};
    RunFunction stopping = [&](const SweepRun& each) -> std::optional<RunOutcome> {
      if (ran_.size() == runs) {
        stopped = true;
        EXPECT_TRUE(each.stop());
        return std::nullopt;
      }
      return parabola()(each);
    };
    SweepOptions options{.folder = folder_ / "s", .stop = [&] { return stopped.load(); }};
    EXPECT_FALSE(sweep(plan_, options, stopping).finished);
    EXPECT_EQ(ran_.size(), runs);
    EXPECT_TRUE(run(parabola()).finished);
    EXPECT_EQ(ran_.size(), 16U);
    EXPECT_EQ(csv(), whole);
  }
}

// Three short runs choose rate 4, where the parabola is lowest; recurrence diverges in the long
// one.
class ShortLadderTest : public SweepTest {
 protected:
  ShortLadderTest() {
    plan_.axes.pop_back();
    plan_.ladder = parse_ladder("2:8");
    plan_.ladder_steps = 100;
  }

  RunFunction short_and_long() {
    return [this](const SweepRun& run) -> std::optional<RunOutcome> {
      std::lock_guard lock(mutex_);
      ran_.push_back(run.folder.filename());
      bool whole = run.config.steps > 100;
      if (whole && run.config.size.context == "rnn") return RunOutcome{.diverged = true};
      double bits = (whole ? 1 : 2) + 0.2 * std::abs(run.config.rate - 4);
      return RunOutcome{.valid_bpc = bits, .steps = run.config.steps, .seconds = 0.5};
    };
  }
};

TEST_F(ShortLadderTest, TheBestRateIsRunForAllSteps) {
  SweepResult result = run(short_and_long());
  EXPECT_TRUE(result.finished);
  const SweptCombination &conv = result.combinations.at(0), &rnn = result.combinations.at(1);
  EXPECT_EQ(conv.best_on_ladder()->rate, 4);
  ASSERT_NE(conv.best(), nullptr);
  EXPECT_EQ(conv.best()->rate, 4);
  EXPECT_EQ(conv.best()->outcome.valid_bpc, 1);
  EXPECT_EQ(conv.best()->outcome.steps, 524288);
  EXPECT_EQ(rnn.best_on_ladder()->rate, 4);
  EXPECT_EQ(rnn.best(), nullptr);
  EXPECT_EQ(csv(),
            "context,rate,valid_bpc,status,steps,seconds,folder\n"
            "conv,2,2.4,ok,100,0.500,context=conv_rate=2^1_steps=100\n"
            "conv,4,2,ok,100,0.500,context=conv_rate=2^2_steps=100\n"
            "conv,8,2.8,ok,100,0.500,context=conv_rate=2^3_steps=100\n"
            "conv,4,1,ok,524288,0.500,context=conv_rate=2^2\n"
            "rnn,2,2.4,ok,100,0.500,context=rnn_rate=2^1_steps=100\n"
            "rnn,4,2,ok,100,0.500,context=rnn_rate=2^2_steps=100\n"
            "rnn,8,2.8,ok,100,0.500,context=rnn_rate=2^3_steps=100\n"
            "rnn,4,,diverged,0,0.000,context=rnn_rate=2^2\n");
}

TEST_F(ShortLadderTest, GoesOnAfterAStopAnywhere) {
  run(short_and_long());
  std::string whole = csv();
  for (size_t runs : {0, 2, 3, 5, 7}) {
    std::filesystem::remove_all(folder_ / "s");
    ran_.clear();
    RunFunction stopping = [&](const SweepRun& each) -> std::optional<RunOutcome> {
      if (ran_.size() == runs) return std::nullopt;
      return short_and_long()(each);
    };
    SweepOptions options{.folder = folder_ / "s", .stop = [&] { return ran_.size() == runs; }};
    EXPECT_FALSE(sweep(plan_, options, stopping).finished);
    EXPECT_TRUE(run(short_and_long()).finished);
    EXPECT_EQ(ran_.size(), 8U);
    EXPECT_EQ(csv(), whole);
  }
}

TEST_F(ShortLadderTest, WithoutARateThatConvergesThereIsNoWholeRun) {
  RunFunction hopeless = [&](const SweepRun& each) -> std::optional<RunOutcome> {
    ran_.push_back(each.folder.filename());
    return RunOutcome{.diverged = true};
  };
  SweepResult result = run(hopeless);
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(ran_.size(), 2U);  // the first rung of each
  EXPECT_EQ(result.combinations.at(0).best(), nullptr);
}

TEST_F(ShortLadderTest, TellsHowFarItIs) {
  std::vector<std::string> lines;
  SweepOptions options{.folder = folder_ / "s",
                       .progress = [&](const std::string& line) { lines.push_back(line); }};
  sweep(plan_, options, [&](const SweepRun& each) -> std::optional<RunOutcome> {
    each.stepped(30);
    return short_and_long()(each);
  });
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_TRUE(lines[0].starts_with("0 of at most 8 runs done, running 30/100, at most "))
      << lines[0];
  EXPECT_TRUE(lines[3].starts_with("3 of at most 8 runs done, running 30/524288, ")) << lines[3];
}

TEST_F(SweepTest, AFailureStopsTheOthersAndIsToldOn) {
  std::atomic<int> started{0}, asked_to_stop{0};
  RunFunction failing = [&](const SweepRun& each) -> std::optional<RunOutcome> {
    if (each.config.size.depth == 2) {
      while (started == 0) std::this_thread::yield();  // there is one to stop
      throw Error("disk full");
    }
    ++started;
    while (!each.stop()) std::this_thread::yield();
    ++asked_to_stop;
    return std::nullopt;
  };
  EXPECT_EQ(error_of([&] { run(failing, 3); }), "disk full");
  EXPECT_GE(asked_to_stop, 1);
}

TEST_F(SweepTest, AFolderWithOtherSettingsIsRefused) {
  run([&](const SweepRun& each) -> std::optional<RunOutcome> {
    write_file((each.folder / "config.json").string(), each.config.to_json());
    return RunOutcome{.valid_bpc = 1};
  });
  EXPECT_TRUE(run(parabola()).finished);
  plan_.base.steps = 77;
  std::string complaint = error_of([&] { run(parabola()); });
  EXPECT_NE(complaint.find("context=conv_depth=1_rate=2^0: holds a run with steps 524288"),
            std::string::npos)
      << complaint;
}

TEST_F(SweepTest, AResultThatIsNoneIsNamed) {
  run(parabola());
  for (const char* content : {"", "{}", "[]", R"({"status": "ok", "steps": 1, "seconds": 1})"}) {
    write_file(folder_ / "s" / "context=conv_depth=2_rate=2^1" / "result.json", content);
    EXPECT_NE(error_of([&] { run(parabola()); }).find("result.json: expected the result of a run"),
              std::string::npos)
        << content;
  }
}

TEST_F(SweepTest, TellsHowFarItIs) {
  plan_.axes.pop_back();
  std::vector<std::string> lines;
  SweepOptions options{.folder = folder_ / "s",
                       .progress = [&](const std::string& line) { lines.push_back(line); }};
  sweep(plan_, options, [&](const SweepRun& each) -> std::optional<RunOutcome> {
    each.stepped(30);
    return parabola()(each);
  });
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_TRUE(lines[0].starts_with("0 of at most 10 runs done, running 30/524288, at most "));
  EXPECT_TRUE(lines[4].starts_with("4 of at most 9 runs done, running 30/524288, at most "));
  EXPECT_TRUE(lines[4].ends_with(" left")) << lines[4];
}

}  // namespace
}  // namespace sigma1
