#include "sigma1/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

TEST(Schedule, HalfLifeHalves) {
  Schedule s = parse_schedule("half-life", 0.5, 800);
  EXPECT_DOUBLE_EQ(rate_at(s, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate_at(s, 100), 0.25);
  EXPECT_DOUBLE_EQ(rate_at(s, 50), 0.5 / std::sqrt(2));
  EXPECT_DOUBLE_EQ(rate_at(s, 800), 0.5 / 256);
  EXPECT_DOUBLE_EQ(rate_at(parse_schedule("half-life:half_life=10", 1, 800), 20), 0.25);
}

TEST(Schedule, ConstantStays) {
  Schedule s = parse_schedule("constant", 0.125, 10);
  for (int64_t step : {0, 5, 100}) EXPECT_EQ(rate_at(s, step), 0.125);
}

TEST(Schedule, LinearEndsAtItsFraction) {
  Schedule s = parse_schedule("linear", 2, 10);
  EXPECT_DOUBLE_EQ(rate_at(s, 0), 2);
  EXPECT_DOUBLE_EQ(rate_at(s, 5), 1);
  EXPECT_EQ(rate_at(s, 10), 0);
  EXPECT_EQ(rate_at(s, 11), 0);
  EXPECT_DOUBLE_EQ(rate_at(parse_schedule("linear:final=1/2", 2, 10), 5), 1.5);
}

TEST(Schedule, CosineEndsAtItsFraction) {
  Schedule s = parse_schedule("cosine:final=0.5", 2, 12);
  EXPECT_DOUBLE_EQ(rate_at(s, 0), 2);
  EXPECT_DOUBLE_EQ(rate_at(s, 4), 2 * (0.5 + 0.5 * 0.75));
  EXPECT_DOUBLE_EQ(rate_at(s, 6), 1.5);
  EXPECT_DOUBLE_EQ(rate_at(s, 12), 1);
  EXPECT_DOUBLE_EQ(rate_at(s, 99), 1);
}

TEST(Schedule, WarmupRisesInALineAndTheRestFollowsIt) {
  for (const char* kind : {"constant", "half-life", "linear", "cosine"}) {
    Schedule s = parse_schedule(std::string(kind) + ":warmup=4", 1, 12);
    for (int64_t step = 0; step < 4; ++step)
      EXPECT_DOUBLE_EQ(rate_at(s, step), 0.25 * static_cast<double>(step + 1)) << kind;
    EXPECT_DOUBLE_EQ(rate_at(s, 4), 1) << kind;
  }
  EXPECT_DOUBLE_EQ(rate_at(parse_schedule("linear:warmup=4", 1, 12), 8), 0.5);
  EXPECT_DOUBLE_EQ(rate_at(parse_schedule("half-life:warmup=4,half_life=2", 1, 12), 8), 0.25);
  EXPECT_EQ(rate_at(parse_schedule("cosine:warmup=12", 1, 12), 12), 0);
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  for (const char* text :
       {"", "halflife", "cosine:", "cosine:warmup", "cosine:warmup=", "cosine:warmup=1.5",
        "cosine:warmup=-1", "cosine:warmup=11", "cosine:final=1.5", "cosine:final=-1",
        "cosine:final=nan", "cosine:half_life=3", "half-life:half_life=-3",
        "half-life:half_life=inf", "half-life:final=0.5", "constant:final=0.5", "linear:start=1"})
    EXPECT_THROW(parse_schedule(text, 1, 10), Error) << text;
  for (double rate : {0.0, -1.0, std::nan(""), HUGE_VAL})
    EXPECT_THROW(parse_schedule("cosine", rate, 10), Error) << rate;
  EXPECT_THROW(parse_schedule("cosine", 1, 0), Error);
}

}  // namespace
}  // namespace sigma1
