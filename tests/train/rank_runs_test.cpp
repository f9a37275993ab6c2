// Whole runs by several ranks, which wait for each other.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/base/thread_ranks.h"
#include "tests/train/run_folder.h"

namespace sigma1 {
namespace {

class RankRun : public RunFolderTest {
 protected:
  // Gradients underflow, which the first rank tells at step 10, between two steps.
  TrainConfig impatient() {
    return config({{"rank-timeout", "2"},
                   {"precision", "fp8"},
                   {"underflow-limit", "0"},
                   {"monitor-every", "10"}});
  }
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2400)); }
};

TEST_F(RankRun, IsPatientWhileTheFirstLooksAndSavesAndOnlyThen) {
  TrainConfig settings = impatient();
  std::atomic<int> told = 0;
  run_as_ranks(2, [&](int rank) {
    RunOptions options{.folder = run_folder()};
    options.warn = [&](const std::string&) {
      if (rank == 0 && told++ == 0) pause();
    };
    EXPECT_TRUE(train(settings, options).finished);
  });
  EXPECT_GT(told, 0);
  for (const Json& line : metrics()) {
    if (!line.contains("loss")) continue;
    EXPECT_GT(line["exchange_s"], 0) << line;
  }
  auto slow_step = [&](int rank) {
    RunOptions options{.folder = run_folder("slow")};
    options.stepped = [&](int64_t step) {
      if (rank == 0 && step == 7) pause();
    };
    train(settings, options);
  };
  EXPECT_THROW(run_as_ranks(2, slow_step), std::logic_error);
}

// Probes, demotions, validation and checkpoints find whole weights, whatever a step handed on.
TEST_F(RankRun, HowWeightsAreGatheredIsNotSeenInARunsFiles) {
  auto trained = [&](const std::string& shard, const std::string& gather) {
    TrainConfig settings = config({{"model", "gpt"},
                                   {"method", "unit"},
                                   {"precision", "fp8"},
                                   {"shard", shard},
                                   {"gather", gather},
                                   {"matmul", "e2m2"},
                                   {"saturation-limit", "0.01"},
                                   {"steps", "8"},
                                   {"evaluate-every", "4"},
                                   {"monitor-every", "3"},
                                   {"probe-every", "4"},
                                   {"probe", "all"},
                                   {"demote", "true"}});
    std::string run = shard + gather;
    run_as_ranks(2, [&](int) { train(settings, {.folder = run_folder(run)}); });
    return run;
  };
  std::string whole = trained("none", "stored"), narrow = trained("optimiser", "narrow");
  EXPECT_NE(content("events.jsonl", whole).find("demotion"), std::string::npos);
  for (const char* file : {"events.jsonl", "monitor.jsonl", "scales.jsonl"}) {
    EXPECT_EQ(content(file, narrow), content(file, whole)) << file;
  }
  EXPECT_EQ(lasting_metrics(narrow), lasting_metrics(whole));
  Corpus corpus = tiny_corpus();
  Session a(latest_checkpoint(run_folder(whole) / "checkpoints"), &corpus);
  Session b(latest_checkpoint(run_folder(narrow) / "checkpoints"), &corpus);
  EXPECT_TRUE(tensors_of(a) == tensors_of(b));
}

}  // namespace
}  // namespace sigma1
