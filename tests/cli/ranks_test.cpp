// The program under mpirun: several processes, real messages, and ranks that are killed or stopped.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

#include "sigma1/base/communicator.h"
#include "sigma1/train/checkpoints.h"
#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

class RankRuns : public TrainRun {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << "built without MPI";
    TrainRun::SetUp();
  }

  std::vector<double> losses(const std::string& name) const {
    std::vector<double> values;
    for (const auto& line : metrics(name)) {
      if (line.contains("loss")) values.push_back(line["loss"].get<double>());
    }
    return values;
  }
};

TEST_F(RankRuns, TwoAndFourRanksTrainAsOneThatAccumulates) {
  for (const Words& model : {Words{}, Words{"--set", "model=gpt"}}) {
    Words settings{"--set", "precision=fp32", "--set", "accumulate=4"};
    settings.insert(settings.end(), model.begin(), model.end());
    fs::remove_all(folder_);
    SetUp();
    ASSERT_EQ(run_program(train(settings, "one")).exit_code, 0);
    for (int count : {2, 4}) {
      settings[3] = "accumulate=" + std::to_string(4 / count);
      std::string name = std::to_string(count);
      ProgramResult result = run_any_program(mpirun(count, train(settings, name)));
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(lines_of(result.out).size(), 2U) << result.out;
      EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;  // memory
      std::vector<double> one = losses("one"), many = losses(name);
      ASSERT_EQ(one.size(), 20U);
      ASSERT_EQ(many.size(), 20U);
      for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(many[i], one[i], 1e-5) << "step " << i;
    }
  }
}

// Weights in 8 bits between ranks: the model that is left, and what it writes, are the same.
TEST_F(RankRuns, HowWeightsAreGatheredIsNotSeenInTheModel) {
  Words settings{"--set", "model=gpt", "--set", "precision=fp8", "--set", "shard=none"};
  ASSERT_EQ(run_any_program(mpirun(2, train(settings, "whole"))).exit_code, 0);
  Words generate{"generate", run("whole"), "--length", "40", "--threads", "1"};
  ProgramResult text = run_program(generate);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  settings.back() = "shard=optimiser";
  settings.insert(settings.end(), {"--set", "gather=narrow"});
  for (const char* gather : {"narrow", "stored"}) {
    settings.back() = std::string("gather=") + gather;
    ProgramResult result = run_any_program(mpirun(2, train(settings, gather)));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(losses(gather), losses("whole"));
    EXPECT_EQ(metrics(gather).back()["valid_loss"], metrics("whole").back()["valid_loss"]);
    generate[1] = run(gather);
    EXPECT_EQ(run_program(generate).out, text.out);
  }
}

// What an exchange costs stands in the run's metrics, and the doctor tells it.
TEST_F(RankRuns, TheDoctorTellsWhatTravels) {
  ASSERT_EQ(run_any_program(mpirun(2, train({"--set", "reduce=fp16"}))).exit_code, 0);
  nlohmann::json traffic = json_from({"doctor", run(), "--threads", "1"})["between_ranks"];
  EXPECT_EQ(traffic["ranks"], 2);
  EXPECT_EQ(traffic["most_sent"], traffic["gradient_bytes"]);
  EXPECT_GT(traffic["exchange_seconds"], 0);
  EXPECT_LT(traffic["share_of_step"], 1);
  ProgramResult text = run_program({"doctor", run(), "--threads", "1"});
  EXPECT_NE(text.out.find("Between 2 ranks in one step: "), std::string::npos) << text.out;
}

TEST_F(RankRuns, AUsersErrorIsToldOnce) {
  for (const Words& wrong :
       {Words{"--set", "rate=-1"}, Words{"--set", "train=/nowhere"}, Words{"--nonsense"},
        Words{"--set", "ranks=3"}, Words{"--threads", "-1"}}) {
    ProgramResult result = run_any_program(mpirun(2, train(wrong)));
    EXPECT_EQ(result.exit_code, 2);
    int told = 0;
    for (const std::string& line : lines_of(result.err)) told += line.starts_with("sigma1: ");
    EXPECT_EQ(told, 1) << result.err;
  }
}

// A step's batches are accumulate x ranks, by however many processes: the run may grow and shrink.
// Of command lines that differ.
TEST_F(RankRuns, WhatOneRankAloneFindsWrongIsToldByIt) {
  Words words = mpirun(1, train());
  words.insert(words.end(), {":", "-np", "1", SIGMA1_PROGRAM});
  for (const std::string& word : train({"--nonsense"})) words.push_back(word);
  ProgramResult result = run_any_program(words);
  EXPECT_EQ(result.exit_code, 2);
  std::vector<std::string> lines = lines_of(result.err);
  ASSERT_EQ(lines.size(), 1U) << result.err;
  EXPECT_TRUE(lines[0].starts_with("sigma1: rank 1: ")) << lines[0];
  EXPECT_NE(lines[0].find("--nonsense"), std::string::npos) << lines[0];
}

TEST_F(RankRuns, ARunIsResumedByMoreAndFewerRanks) {
  Words settings{"--set", "precision=fp32", "accumulate=2", "shard=optimiser",
                 "checkpoint-every=5"};
  ASSERT_EQ(run_any_program(mpirun(2, train(settings, "whole"))).exit_code, 0);
  settings.emplace_back("keep=9");
  ASSERT_EQ(run_any_program(mpirun(2, train(settings))).exit_code, 0);
  for (auto [count, from] : {std::pair{4, 5}, {1, 10}}) {
    for (const auto& entry : fs::directory_iterator(run() / "checkpoints")) {
      if (load_checkpoint(entry.path()).step > from) fs::remove(entry.path());
    }
    ProgramResult result = run_any_program(mpirun(count, resume()));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::vector<double> all = losses("whole"), changed = losses("run");
    ASSERT_EQ(all.size(), changed.size());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(changed[i], all[i], 1e-5) << "step " << i;
  }
  ProgramResult result = run_any_program(mpirun(3, resume()));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "sigma1: ranks: expected a number that divides the 4 batches of a step (accumulate 2 x "
            "ranks 2), got 3\n");
}

// Jobs that are interrupted: they say who is lost, end by themselves, and go on with the same bits.
class InterruptedRanks : public RankRuns {
 protected:
  static constexpr int kRanks = 3, kTimeout = 4;
  using Clock = std::chrono::steady_clock;

  // The job of a run, begun or resumed.
  Words job(const std::string& name, const Words& more = {}) const {
    if (fs::exists(run(name) / "config.json")) return mpirun(kRanks, resume(name));
    Words settings{
        "--set",      "shard=optimiser", "steps=240", "checkpoint-every=4",
        "probe=none", "monitor-every=0", "keep=2",    "rank-timeout=" + std::to_string(kTimeout)};
    settings.insert(settings.end(), more.begin(), more.end());
    return mpirun(kRanks, train(settings, name));
  }

  // Process ids by rank, found by what their launcher gave them.
  static std::map<int, pid_t> processes(const std::string& run) {
    std::map<int, pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      try {
        std::string command = read_file(entry.path() / "cmdline");
        std::string program = command.substr(0, command.find('\0'));
        if (program != SIGMA1_PROGRAM || command.find(run) == std::string::npos) continue;
        std::string environment = read_file(entry.path() / "environ");
        constexpr std::string_view kKey = "OMPI_COMM_WORLD_RANK=";
        size_t at = environment.find(kKey);
        if (at == std::string::npos) continue;
        found[std::stoi(environment.substr(at + kKey.size()))] = std::stoi(name);
      } catch (const Error&) {  // it has ended meanwhile
      }
    }
    return found;
  }

  // A job that has made so many steps since its last checkpoint.
  std::unique_ptr<RunningProgram> start(const std::string& name, size_t steps,
                                        const Words& more = {}) const {
    fs::path checkpoints = run(name) / "checkpoints";
    size_t from =
        has_checkpoint(checkpoints) ? static_cast<size_t>(latest_checkpoint(checkpoints).step) : 0;
    auto program =
        std::make_unique<RunningProgram>(job(name, more), "", RunningProgram::Which::any);
    // What an interrupted job has written beyond its checkpoint is there until this one starts.
    bool was_below = false, is_there = false;
    while (!program->has_ended() && !is_there) {
      size_t now = losses(name).size();
      was_below = was_below || now < from + steps;
      is_there = was_below && now >= from + steps;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return program;
  }

  void lose(const std::string& name, int rank, int signal, size_t after_steps) const {
    auto program = start(name, after_steps);
    std::map<int, pid_t> found = processes(run(name));
    ASSERT_TRUE(found.contains(rank)) << program->wait().err;
    auto then = Clock::now();
    kill(found.at(rank), signal);
    ProgramResult result = program->wait();
    // A launcher may leave before the last of those that it killed has gone.
    auto is_late = [&] { return Clock::now() - then > std::chrono::seconds(kTimeout + 10); };
    while (!processes(run(name)).empty() && !is_late()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_FALSE(is_late());
    expect_names(rank, result);
    Checkpoint last = latest_checkpoint(run(name) / "checkpoints");  // checks its sums
    EXPECT_EQ(last.warnings, std::vector<std::string>());
  }

  // It failed with one line that does.
  static void expect_names(int rank, const ProgramResult& result) {
    EXPECT_NE(result.exit_code, 0);
    Words told;
    for (const std::string& line : lines_of(result.err)) {
      if (line.starts_with("sigma1: rank ")) told.push_back(line);
    }
    ASSERT_EQ(told.size(), 1U) << result.err;
    EXPECT_TRUE(told[0].starts_with("sigma1: rank " + std::to_string(rank) + " ")) << told[0];
  }

  void expect_goes_on_like_the_whole(const std::string& name) const {
    ProgramResult resumed = run_any_program(job(name));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_TRUE(metrics(name) == metrics("whole"));
  }
};

// Jobs side by side: most of the time each waits for a launcher.
TEST_F(InterruptedRanks, AKilledOrStoppedRankEndsTheJobAndLeavesAWholeCheckpoint) {
  constexpr int kJobs = 4, kLosses = 5;
  auto given = static_cast<unsigned>(GTEST_FLAG_GET(random_seed));
  unsigned seed = given > 0 ? given : 1 + std::random_device()() % 99999;
  std::cout << "GTEST_RANDOM_SEED=" << seed << " loses the same ranks again" << std::endl;
  ProgramResult whole = run_any_program(job("whole", {"rank-timeout=60"}));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  auto lose_some = [&](int number) {
    std::string name = "job" + std::to_string(number);
    std::minstd_rand random(seed + static_cast<unsigned>(number));
    random.discard(10);
    for (int i = 0; i < kLosses; ++i) {
      auto rank = static_cast<int>(random() % kRanks);
      int signal = (number + i) % 2 == 0 ? SIGKILL : SIGSTOP;
      size_t steps = 6 + random() % 4;  // about when the second is saved
      SCOPED_TRACE(name + ": rank " + std::to_string(rank) + " gets signal " +
                   std::to_string(signal) + " after " + std::to_string(steps) + " steps");
      lose(name, rank, signal, steps);
    }
    expect_goes_on_like_the_whole(name);
  };
  std::vector<std::jthread> jobs;
  for (int number = 0; number < kJobs; ++number) jobs.emplace_back(lose_some, number);
}

// A debugger holds the thread that computes: the process runs on, and answers nobody.
TEST_F(InterruptedRanks, AHangingRankEndsTheJob) {
  constexpr int kHanging = 1;
  auto program = start("run", 3, {"steps=100000", "checkpoint-every=100000"});
  pid_t process = processes(run()).at(kHanging);
  if (ptrace(PTRACE_SEIZE, process, nullptr, nullptr) != 0) GTEST_SKIP() << "no ptrace here";
  auto then = Clock::now();
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, process, nullptr, nullptr), 0);
  int status = 0;
  do {
    ASSERT_EQ(waitpid(process, &status, __WALL), process);
  } while (WIFSTOPPED(status));
  ProgramResult result = program->wait();
  EXPECT_LT(Clock::now() - then, std::chrono::seconds(kTimeout + 10));
  expect_names(kHanging, result);
  EXPECT_NE(result.err.find("it hangs"), std::string::npos) << result.err;
}

// mpirun hands on SIGUSR1, and leaves the ranks their time; after SIGTERM it kills them in about
// two seconds, which may be too short to save in.
TEST_F(InterruptedRanks, ASignalToTheLauncherSavesOrLeavesTheLastCheckpoint) {
  ProgramResult whole = run_any_program(job("whole", {"rank-timeout=60"}));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  auto asked = start("run", 6);
  asked->send(SIGUSR1);
  ProgramResult result = asked->wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("stopped at step ")) << result.out;
  auto ended = start("run", 6);
  ended->send(SIGTERM);
  EXPECT_NE(ended->wait().exit_code, 0);
  EXPECT_EQ(latest_checkpoint(run() / "checkpoints").warnings, std::vector<std::string>());
  expect_goes_on_like_the_whole("run");
}

}  // namespace
}  // namespace sigma1
