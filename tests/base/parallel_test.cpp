#include "sigma1/base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

class ParallelTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_thread_count(GetParam()); }
  void TearDown() override { set_thread_count(0); }
};

TEST_P(ParallelTest, CutsBySizeAlone) {
  std::mutex mutex;
  std::vector<std::pair<size_t, size_t>> pieces;
  parallel_for(10, 4, [&](size_t begin, size_t end) {
    std::lock_guard lock(mutex);
    pieces.emplace_back(begin, end);
  });
  std::ranges::sort(pieces);
  EXPECT_EQ(pieces, (std::vector<std::pair<size_t, size_t>>{{0, 4}, {4, 8}, {8, 10}}));
}

TEST_P(ParallelTest, VisitsEveryElementOnce) {
  std::vector<int> visits(100'003);
  parallel_for(visits.size(), 17, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) ++visits[i];
  });
  EXPECT_EQ(std::ranges::count(visits, 1), std::ssize(visits));
}

TEST_P(ParallelTest, ErrorReachesTheCaller) {
  auto fail = [](size_t, size_t) { throw Error("piece failed"); };
  EXPECT_THROW(parallel_for(100, 1, fail), Error);
  EXPECT_NO_THROW(parallel_for(0, 1, fail));
}

// A body that cuts its own work: every inner piece is done, by whoever has the outer one.
TEST_P(ParallelTest, NestedCallsStayOnTheirThread) {
  std::vector<int> visits(40 * 100);
  std::atomic<int> strayed{0}, not_inside{0};
  parallel_for(40, 1, [&](size_t outer, size_t) {
    std::thread::id owner = std::this_thread::get_id();
    if (GetParam() > 1 && !in_parallel()) ++not_inside;
    parallel_for(100, 7, [&](size_t begin, size_t end) {
      if (GetParam() > 1 && std::this_thread::get_id() != owner) ++strayed;
      for (size_t i = begin; i < end; ++i) ++visits[outer * 100 + i];
    });
  });
  EXPECT_EQ(std::ranges::count(visits, 1), std::ssize(visits));
  EXPECT_EQ(strayed, 0);
  EXPECT_EQ(not_inside, 0);
  EXPECT_FALSE(in_parallel());
}

TEST_P(ParallelTest, SeveralCallersAtOnce) {
  std::vector<int64_t> sums(4);
  {
    std::vector<std::jthread> callers;
    for (int64_t& sum : sums) {
      callers.emplace_back([&sum] {
        std::vector<int64_t> squares(1000);
        for (int repeat = 0; repeat < 50; ++repeat) {
          parallel_for(squares.size(), 10, [&](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) squares[i] += static_cast<int64_t>(i * i);
          });
        }
        sum = std::accumulate(squares.begin(), squares.end(), int64_t{0});
      });
    }
  }
  for (int64_t sum : sums) EXPECT_EQ(sum, int64_t{50} * 332'833'500);
}

// The pool is whole again after a body threw, and says so with the first message.
TEST_P(ParallelTest, WorksAfterAnError) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> started{0};
    auto fail_late = [&](size_t begin, size_t) {
      ++started;
      if (begin == 5) throw Error("piece 5 failed");
    };
    try {
      parallel_for(1000, 1, fail_late);
      FAIL() << "the error was lost";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "piece 5 failed");
    }
    EXPECT_FALSE(in_parallel());
    std::atomic<size_t> done{0};
    parallel_for(100, 3, [&](size_t begin, size_t end) { done += end - begin; });
    EXPECT_EQ(done, 100u);
  }
}

TEST_P(ParallelTest, AnErrorEndsTheWorkEarly) {
  std::atomic<int> started{0};
  auto fail = [&](size_t, size_t) {
    ++started;
    throw Error("failed");
  };
  EXPECT_THROW(parallel_for(100'000, 1, fail), Error);
  EXPECT_LE(started, GetParam());
}

// Kernels call it some hundred times a step: a call must not cost a thread's start.
TEST_P(ParallelTest, ManySmallJobsAreQuick) {
  constexpr size_t kJobs = 100'000;
  auto start = std::chrono::steady_clock::now();
  std::vector<uint32_t> counts(4);
  for (size_t job = 0; job < kJobs; ++job) {
    parallel_for(counts.size(), 1, [&](size_t i, size_t) { ++counts[i]; });
  }
  EXPECT_EQ(counts, std::vector<uint32_t>(4, kJobs));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelTest, testing::Values(1, 2, 7));

TEST(Parallel, ThreadCountMayChangeBetweenCalls) {
  std::vector<int> visits(5000);
  int repeats = 0;
  for (int count : {1, 7, 2, 5, 1, 3, 0}) {
    set_thread_count(count);
    EXPECT_TRUE(count == 0 || thread_count() == count);
    parallel_for(visits.size(), 11, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) ++visits[i];
    });
    EXPECT_EQ(std::ranges::count(visits, ++repeats), std::ssize(visits)) << count;
  }
}

// As many threads as asked for, at most: a piece per thread that waits until the last arrives.
TEST(Parallel, UsesNoMoreThreadsThanAskedFor) {
  for (int count : {1, 2, 3}) {
    set_thread_count(count);
    std::atomic<int> running{0}, most{0};
    parallel_for(200, 1, [&](size_t, size_t) {
      int now = ++running, seen = most;
      while (seen < now && !most.compare_exchange_weak(seen, now)) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      --running;
    });
    EXPECT_LE(most, count);
    EXPECT_TRUE(count == 1 || most >= 2) << "nobody helped";
  }
  set_thread_count(0);
}

TEST(Parallel, RefusesAPieceOfNothing) {
  EXPECT_THROW(parallel_for(10, 0, [](size_t, size_t) {}), Bug);
}

TEST(Parallel, RefusesANegativeCount) { EXPECT_THROW(set_thread_count(-1), Error); }

}  // namespace
}  // namespace sigma1
