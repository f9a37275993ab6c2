#include "sigma1/base/rng.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sigma1 {
namespace {

// The known-answer vectors published with the Random123 library (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  struct Answer {
    PhiloxBlock counter;
    PhiloxKey key;
    PhiloxBlock result;
  };
  const Answer answers[] = {
      {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       {0xffffffff, 0xffffffff},
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       {0xa4093822, 0x299f31d0},
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const Answer& answer : answers) {
    PhiloxBlock block = philox(answer.counter, answer.key);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], answer.result.word[i]);
  }
}

TEST(RandomStream, DependsOnSeedNameAndStepAlone) {
  EXPECT_EQ(RandomStream(1, "a", 2).bits(7), RandomStream(1, "a", 2).bits(7));
  EXPECT_NE(RandomStream(1, "a", 2).bits(7), RandomStream(2, "a", 2).bits(7));
  EXPECT_NE(RandomStream(1, "a", 2).bits(7), RandomStream(1, "b", 2).bits(7));
  EXPECT_NE(RandomStream(1, "a", 2).bits(7), RandomStream(1, "a", 3).bits(7));
}

// Five standard errors: a false alarm in a sound generator has odds of about one in two million.
TEST(RandomStream, MomentsOfUniformAndNormal) {
  RandomStream stream(5, "moments");
  constexpr uint64_t kCount = 1 << 20;
  double uniform = 0, sum = 0, square = 0, neighbours = 0, previous = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    uniform += stream.uniform(i);
    double x = stream.normal(i);
    sum += x;
    square += x * x;
    neighbours += x * previous;
    previous = x;
  }
  double error = 5 / std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(uniform / kCount, 0.5, error / std::sqrt(12.0));
  EXPECT_NEAR(sum / kCount, 0, error);
  EXPECT_NEAR(square / kCount, 1, error * std::sqrt(2.0));
  EXPECT_NEAR(neighbours / kCount, 0, error);
}

}  // namespace
}  // namespace sigma1
