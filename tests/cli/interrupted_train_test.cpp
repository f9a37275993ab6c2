// A run must survive whatever ends it: what it goes on with are the bits it would have had.
#include <csignal>
#include <random>
#include <thread>

#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

class InterruptedTrain : public TrainRun {
 protected:
  static constexpr int64_t kSteps = 400;

  Words long_train(const Words& more = {}, const std::string& name = "run") const {
    Words words = train({"--steps", std::to_string(kSteps), "--set", "checkpoint-every=25", "--set",
                         "evaluate-every=100", "--set", "evaluate-limit=100"},
                        name);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  int64_t steps_written() const {
    auto lines = metrics();
    int64_t last = 0;
    for (const auto& line : lines) {
      if (line.is_object()) last = line["step"].get<int64_t>();
    }
    return last;
  }

  // False when the program ended before.
  bool wait_for_step(RunningProgram& program, int64_t step) const {
    while (steps_written() < step) {
      if (program.has_ended()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }

  void expect_finishes_like_the_whole() {
    ProgramResult last = run_program(resume());
    EXPECT_EQ(last.exit_code, 0) << last.err;
    EXPECT_EQ(last.err, "");
    expect_like_the_whole();
  }
  void expect_like_the_whole() {
    EXPECT_TRUE(metrics() == metrics("whole"));
    for (const char* file : {"scales.jsonl", "monitor.jsonl", "events.jsonl"}) {
      EXPECT_TRUE(content(file) == content(file, "whole")) << file;
    }
  }
};

TEST_F(InterruptedTrain, KilledAtAnyTimeItGoesOnWithTheSameBits) {
  ASSERT_EQ(run_program(long_train({}, "whole")).exit_code, 0);
  ASSERT_EQ(metrics("whole").size(), static_cast<size_t>(kSteps) + 4);
  std::minstd_rand random(1);
  for (int round = 0; round < 3; ++round) {
    fs::remove_all(run());
    int killed = 0;
    for (int64_t step : {3, 45, 110, 200}) {
      RunningProgram program(fs::exists(run() / "config.json") ? resume() : long_train());
      if (!wait_for_step(program, step)) break;
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
      program.send(SIGKILL);
      killed += program.wait().exit_code == -SIGKILL;
    }
    EXPECT_GE(killed, 1);
    expect_finishes_like_the_whole();
  }
}

// Both would write into its files, and both would say that all is well.
TEST_F(InterruptedTrain, NobodyElseTrainsInItsFolder) {
  RunningProgram program(train({"--steps", "1000000", "--set", "probe=none"}));
  ASSERT_TRUE(wait_for_step(program, 30));
  expect_mistake(resume(), {run(), "another process"});
  program.send(SIGTERM);
  EXPECT_EQ(program.wait().exit_code, 0);
  RunningProgram next(resume());
  ASSERT_TRUE(wait_for_step(next, steps_written() + 1));
}

// Products are moved to other formats at steps 10, 20 and so on.
TEST_F(InterruptedTrain, KilledAroundADemotionItGoesOnWithTheSameBits) {
  Words settings = saturating();
  settings.insert(settings.end(), {"checkpoint-every=7", "--demote"});
  ASSERT_EQ(run_program(long_train(settings, "whole")).exit_code, 0);
  ASSERT_NE(content("events.jsonl", "whole").find("\"demotion\""), std::string::npos);
  std::minstd_rand random(3);
  for (int64_t step : {9, 10, 11, 21, 30}) {
    RunningProgram program(fs::exists(run() / "config.json") ? resume() : long_train(settings));
    if (!wait_for_step(program, step)) break;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    program.send(SIGKILL);
    program.wait();
  }
  EXPECT_EQ(run_program(resume()).exit_code, 0);
  expect_like_the_whole();
  int64_t last = kSteps;
  EXPECT_EQ(read_file(checkpoint_path(run() / "checkpoints", last)),
            read_file(checkpoint_path(run("whole") / "checkpoints", last)));
}

// Before and while the folder, the config and the first files are made.
TEST_F(InterruptedTrain, KilledAtItsStartItCanBeStartedOrResumed) {
  ASSERT_EQ(run_program(train({}, "whole")).exit_code, 0);
  std::minstd_rand random(2);
  for (int round = 0; round < 6; ++round) {
    fs::remove_all(run());
    RunningProgram program(train());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    program.send(SIGKILL);
    program.wait();
    if (!fs::exists(run() / "config.json")) {
      EXPECT_EQ(run_program(train()).exit_code, 0);
    }
    expect_finishes_like_the_whole();
  }
}

TEST_F(InterruptedTrain, AskedToStopItSavesAndSaysHowToGoOn) {
  ASSERT_EQ(run_program(long_train({}, "whole")).exit_code, 0);
  // Often: a signal finds the program in a matrix product, or elsewhere.
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGINT, SIGTERM, SIGUSR1}) {
    fs::remove_all(run());
    RunningProgram program(long_train());
    ASSERT_TRUE(wait_for_step(program, 13));
    program.send(signal);
    ProgramResult stopped = program.wait();
    EXPECT_EQ(stopped.exit_code, 0);
    EXPECT_EQ(stopped.err, "");
    int64_t step = steps_written();
    ASSERT_LT(step, kSteps);
    EXPECT_EQ(stopped.out, fmt::format("stopped at step {}, saved; go on with: sigma1 train --run "
                                       "{} --resume\n",
                                       step, run().string()));
    EXPECT_TRUE(fs::exists(checkpoint_path(run() / "checkpoints", step)));
    expect_finishes_like_the_whole();
  }
}

TEST_F(InterruptedTrain, ABrokenCheckpointIsPassedOverAndAllBrokenIsAnError) {
  ASSERT_EQ(run_program(train({}, "whole")).exit_code, 0);
  ASSERT_EQ(run_program(train()).exit_code, 0);
  fs::path newest = checkpoint_path(run() / "checkpoints", 20);
  fs::resize_file(newest, fs::file_size(newest) - 7);
  ProgramResult resumed = run_program(resume());
  EXPECT_EQ(resumed.exit_code, 0);
  EXPECT_EQ(lines_of(resumed.err).size(), 1U) << resumed.err;
  EXPECT_NE(resumed.err.find("step-00000020"), std::string::npos) << resumed.err;
  EXPECT_TRUE(metrics() == metrics("whole"));
  for (const auto& entry : fs::directory_iterator(run() / "checkpoints")) {
    fs::resize_file(entry.path(), 100);
  }
  ProgramResult hopeless = run_program(resume());
  EXPECT_EQ(hopeless.exit_code, 2);
  EXPECT_EQ(lines_of(hopeless.err).size(), 1U) << hopeless.err;
}

}  // namespace
}  // namespace sigma1
