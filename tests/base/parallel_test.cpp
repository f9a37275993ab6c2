#include "sigma1/base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
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

INSTANTIATE_TEST_SUITE_P(Threads, ParallelTest, testing::Values(1, 2, 7));

TEST(Parallel, RefusesANegativeCount) { EXPECT_THROW(set_thread_count(-1), Error); }

}  // namespace
}  // namespace sigma1
