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

}  // namespace
}  // namespace sigma1
