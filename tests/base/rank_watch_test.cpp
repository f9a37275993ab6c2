#include "sigma1/base/rank_watch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <thread>

namespace sigma1 {
namespace {

using std::chrono::milliseconds;

// Rank 0 is this process; rank 1 one that only beats.
class RankWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    void* memory = mmap(nullptr, 2 * sizeof(RankSign), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    signs_ = new (memory) RankSign[2];
    child_ = fork();
    if (child_ == 0) {
      for (;; usleep(1000)) ++signs_[1].beat;
    }
  }
  void TearDown() override {
    end();
    munmap(signs_, 2 * sizeof(RankSign));
  }

  // Killed, and its launcher has seen it.
  void end() {
    if (child_ == 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }

  // What is told by then.
  std::string told_within(milliseconds time, const std::function<void()>& event) {
    std::string told;
    {
      RankWatch watch({{0, getpid(), &signs_[0]}, {1, child_, &signs_[1]}}, 0,
                      [&](const std::string& what) { told += what; });
      watch.set_timeout(0.5);
      std::this_thread::sleep_for(milliseconds(100));
      event();
      std::this_thread::sleep_for(time);
    }
    return told;
  }

  RankSign* signs_ = nullptr;
  pid_t child_ = 0;
};

TEST_F(RankWatchTest, SaysNothingOfARankThatRuns) {
  EXPECT_EQ(told_within(milliseconds(800), [] {}), "");
  EXPECT_GT(signs_[0].beat, 0);
}

TEST_F(RankWatchTest, TellsOfAKilledRankSoonerThanALauncherEndsAll) {
  std::string process = std::to_string(child_);
  EXPECT_EQ(told_within(milliseconds(900), [&] { end(); }),
            "rank 1 (process " + process + ") has ended without a word: it was killed or crashed");
}

TEST_F(RankWatchTest, TellsOfAStoppedRank) {
  std::string process = std::to_string(child_);
  EXPECT_EQ(told_within(milliseconds(1200), [&] { kill(child_, SIGSTOP); }),
            "rank 1 (process " + process + ") has not run for 0.5 s: it was stopped");
}

TEST_F(RankWatchTest, LetsARankLeave) {
  auto leave = [&] {
    signs_[1].left = true;
    end();
  };
  EXPECT_EQ(told_within(milliseconds(900), leave), "");
}

// 0 waits for 1, which waits for 2: that one is to blame.
TEST(RankWatch, FindsWhoKeepsAllWaiting) {
  RankSign signs[3];
  std::vector<RankWatch::Neighbour> all;
  for (int rank = 0; rank < 3; ++rank) all.push_back({rank, getpid(), &signs[rank]});
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  int64_t soon = 60'000 + std::chrono::duration_cast<milliseconds>(now).count();
  for (RankSign& sign : signs) sign.beat = soon;
  RankWatch watch(all, 0, [](const std::string&) {});
  EXPECT_EQ(watch.awaited(), 0);
  watch.wait_for(1);
  EXPECT_EQ(watch.awaited(), 1);
  signs[1].waits_for = 2;
  EXPECT_EQ(watch.awaited(), 2);
  signs[2].waits_for = 7;  // of another machine
  EXPECT_EQ(watch.awaited(), 7);
  signs[2].waits_for = 0;  // when it was stopped
  signs[2].beat = 0;
  EXPECT_EQ(watch.awaited(), 2);
}

TEST_F(RankWatchTest, OneTellsForAll) {
  auto other_tells = [&] {
    EXPECT_FALSE(signs_[0].told.exchange(true));
    end();
  };
  EXPECT_EQ(told_within(milliseconds(900), other_tells), "");
}

}  // namespace
}  // namespace sigma1
