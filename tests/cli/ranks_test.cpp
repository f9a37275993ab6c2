// The program under mpirun: several processes, real messages, and ranks that are killed or stop.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "sigma1/base/communicator.h"
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

// What is left of a rank that is killed, or hangs: the job ends by itself, says who it was, and
// goes on with the same bits.
class LostRanks : public RankRuns {
 protected:
  static constexpr int kRanks = 3, kSteps = 200;

  Words settings() const {
    return train({"--set", "shard=optimiser", "--set", "rank-timeout=10", "--set",
                  "checkpoint-every=10", "--set", "evaluate-every=100", "--set",
                  "steps=" + std::to_string(kSteps)});
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

  // The result of a job one of whose ranks gets a signal after some steps.
  ProgramResult lose(int rank, int signal, size_t after_steps) {
    fs::remove_all(run());
    RunningProgram job(mpirun(kRanks, settings()), "", RunningProgram::Which::any);
    while (losses("run").size() < after_steps) {
      if (job.has_ended()) return job.wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    kill(processes(run()).at(rank), signal);
    return job.wait();
  }

  void expect_whole() {
    ProgramResult resumed = run_any_program(mpirun(kRanks, resume()));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_TRUE(metrics() == metrics("whole"));
  }
};

TEST_F(LostRanks, AKilledOrStoppedRankEndsTheJobAndLeavesAWholeCheckpoint) {
  Words whole = settings();
  whole[2] = run("whole");
  ASSERT_EQ(run_any_program(mpirun(kRanks, whole)).exit_code, 0);
  std::minstd_rand random(5);
  for (int signal : {SIGKILL, SIGSTOP, SIGSTOP}) {
    auto rank = static_cast<int>(random() % kRanks);
    SCOPED_TRACE("rank " + std::to_string(rank) + ", signal " + std::to_string(signal));
    ProgramResult result = lose(rank, signal, 12 + random() % 40);
    EXPECT_NE(result.exit_code, 0);
    if (signal == SIGSTOP) {
      std::string line = "sigma1: rank " + std::to_string(rank) + " of 3 has not answered";
      EXPECT_NE(result.err.find(line), std::string::npos) << result.err;
      EXPECT_EQ(result.err.find("sigma1: rank"), result.err.rfind("sigma1: rank")) << result.err;
    }
    EXPECT_TRUE(processes(run()).empty());
    expect_whole();
  }
}

}  // namespace
}  // namespace sigma1
