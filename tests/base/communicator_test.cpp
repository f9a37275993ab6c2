#include "sigma1/base/communicator.h"

#include <gtest/gtest.h>

#include <atomic>

#include "sigma1/base/error.h"
#include "tests/base/thread_ranks.h"

namespace sigma1 {
namespace {

TEST(Ranks, AloneAProcessTalksToItself) {
  EXPECT_EQ(ranks().size(), 1);
  EXPECT_EQ(ranks().rank(), 0);
  EXPECT_EQ(gather_texts(ranks(), "a"), std::vector<std::string>{"a"});
  EXPECT_EQ(sum_over_ranks(ranks(), {1, 2}), (std::vector<double>{1, 2}));
  EXPECT_TRUE(any_rank(ranks(), true));
}

TEST(Ranks, EachGetsWhatEachGave) {
  run_as_ranks(4, [](int rank) {
    EXPECT_EQ(ranks().size(), 4);
    EXPECT_EQ(ranks().rank(), rank);
    std::string own(static_cast<size_t>(rank), 'x');
    EXPECT_EQ(gather_texts(ranks(), own), (std::vector<std::string>{"", "x", "xx", "xxx"}));
    EXPECT_EQ(broadcast_text(ranks(), own, 2), "xx");
    EXPECT_EQ(gather_numbers(ranks(), rank), (std::vector<double>{0, 1, 2, 3}));
    EXPECT_EQ(sum_over_ranks(ranks(), {1.0, static_cast<double>(rank)}),
              (std::vector<double>{4, 6}));
    EXPECT_TRUE(any_rank(ranks(), rank == 3));
    EXPECT_FALSE(any_rank(ranks(), false));
  });
}

// 1e20 + 1 − 1e20 is 0 in this order only.
TEST(Ranks, SumsAreInTheOrderOfRanks) {
  constexpr double kNumbers[] = {1e20, 1, -1e20};
  run_as_ranks(3, [&](int rank) {
    EXPECT_EQ(sum_over_ranks(ranks(), {kNumbers[rank]}), std::vector<double>{0});
  });
  constexpr double kOthers[] = {1e20, -1e20, 1};
  run_as_ranks(3, [&](int rank) {
    EXPECT_EQ(sum_over_ranks(ranks(), {kOthers[rank]}), std::vector<double>{1});
  });
}

TEST(Ranks, NobodyPassesABarrierBeforeAllAreThere) {
  std::atomic<int> there = 0;
  run_as_ranks(4, [&](int) {
    ++there;
    barrier(ranks());
    EXPECT_EQ(there, 4);
  });
}

TEST(Ranks, OneRanksErrorIsEveryones) {
  run_as_ranks(3, [](int rank) {
    together(ranks(), [] {});
    EXPECT_FALSE(ranks().failed_together());
    auto fail = [rank] {
      if (rank > 0) throw Error("of rank {}", rank);
    };
    try {
      together(ranks(), fail);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "of rank 1");
    }
    EXPECT_TRUE(ranks().failed_together());
  });
}

}  // namespace
}  // namespace sigma1
