#include "sigma1/data/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

// Token i is i + 1, so that a token tells its place and 0 is padding only.
std::vector<uint16_t> numbered(size_t length) {
  std::vector<uint16_t> text(length);
  std::iota(text.begin(), text.end(), uint16_t{1});
  return text;
}

size_t at(const Batch& batch, int64_t sequence, int64_t t) {
  return static_cast<size_t>(sequence * batch.length + t);
}

double counted(const Batch& batch) {
  return std::accumulate(batch.mask.begin(), batch.mask.end(), 0.0);
}

TEST(TrainingBatch, HoldsConsecutiveTokensWithTheContextMasked) {
  std::vector<uint16_t> text = numbered(5000);
  Batch batch = training_batch(text, 16, 1, 0);
  EXPECT_EQ(batch.sequences, 16);
  EXPECT_EQ(batch.length, 256);
  ASSERT_EQ(batch.tokens.size(), 16u * 256);
  ASSERT_EQ(batch.mask.size(), 16u * 256);
  for (int64_t s = 0; s < 16; ++s)
    for (int64_t t = 0; t < 256; ++t) {
      EXPECT_EQ(batch.tokens[at(batch, s, t)], batch.tokens[at(batch, s, 0)] + t);
      EXPECT_EQ(batch.mask[at(batch, s, t)], t < 32 ? 0.0f : 1.0f);
    }
}

TEST(TrainingBatch, IsAFunctionOfSeedAndStep) {
  std::vector<uint16_t> text = numbered(60000);
  EXPECT_EQ(training_batch(text, 8, 1, 5).tokens, training_batch(text, 8, 1, 5).tokens);
  EXPECT_NE(training_batch(text, 8, 1, 5).tokens, training_batch(text, 8, 1, 6).tokens);
  EXPECT_NE(training_batch(text, 8, 1, 5).tokens, training_batch(text, 8, 2, 5).tokens);
}

TEST(TrainingBatch, ASequenceDoesNotDependOnTheSizeOfItsBatch) {
  std::vector<uint16_t> text = numbered(60000);
  Batch small = training_batch(text, 3, 1, 5), large = training_batch(text, 8, 1, 5);
  large.tokens.resize(small.tokens.size());
  EXPECT_EQ(small.tokens, large.tokens);
}

TEST(TrainingBatch, StartsAreUniformIncludingBothEnds) {
  constexpr int64_t kStarts = 50, kPerStep = 100, kSteps = 200;
  WindowSizes sizes{.length = 8, .context = 2};
  std::vector<uint16_t> text = numbered(kStarts + 7);
  std::vector<double> count(kStarts);
  for (uint64_t step = 0; step < kSteps; ++step) {
    Batch batch = training_batch(text, kPerStep, 3, step, sizes);
    for (int64_t s = 0; s < kPerStep; ++s) count.at(batch.tokens[at(batch, s, 0)] - 1u) += 1;
  }
  double expected = static_cast<double>(kPerStep * kSteps) / kStarts, chi_square = 0;
  for (double c : count) chi_square += (c - expected) * (c - expected) / expected;
  EXPECT_LT(chi_square, 49 + 5 * 9.9);  // 49 degrees of freedom: standard deviation √98
  EXPECT_GT(chi_square, 49 - 4 * 9.9);  // drawn, not dealt out evenly
}

TEST(TrainingBatch, NeedsOneWholeWindow) {
  EXPECT_EQ(training_batch(numbered(256), 4, 1, 0).tokens[255], 256);
  EXPECT_THROW(training_batch(numbered(255), 4, 1, 0), Error);
  EXPECT_THROW(training_batch({}, 4, 1, 0), Error);
}

// How often each token of the text is counted; also checks that windows hold the text, in order.
std::vector<int> coverage(size_t length, int64_t batch_size, WindowSizes sizes) {
  std::vector<uint16_t> text = numbered(length);
  std::vector<int> counts(length);
  int64_t windows = evaluation_windows(static_cast<int64_t>(length), sizes);
  for (int64_t first = 0; first < windows; first += batch_size) {
    Batch batch = evaluation_batch(text, first, batch_size, sizes);
    EXPECT_EQ(batch.tokens.size(), static_cast<size_t>(batch_size * sizes.length));
    EXPECT_EQ(batch.mask.size(), batch.tokens.size());
    for (int64_t s = 0; s < batch_size; ++s)
      for (int64_t t = 0; t < sizes.length; ++t) {
        uint16_t token = batch.tokens[at(batch, s, t)];
        EXPECT_TRUE(t == 0 || token == 0 || token == batch.tokens[at(batch, s, t - 1)] + 1);
        if (batch.mask[at(batch, s, t)] == 0) continue;
        EXPECT_EQ(batch.mask[at(batch, s, t)], 1.0f);
        counts.at(token - 1u) += 1;  // throws when padding is counted
        EXPECT_GE(t, std::min<int64_t>(token - 1, sizes.context)) << "too little context";
      }
  }
  return counts;
}

TEST(EvaluationBatch, CountsEveryTokenOnce) {
  for (size_t length : {1, 31, 32, 33, 223, 224, 225, 255, 256, 257, 447, 448, 449, 5000})
    for (int64_t batch_size : {1, 3})
      EXPECT_EQ(coverage(length, batch_size, {}), std::vector<int>(length, 1)) << length;
}

TEST(EvaluationBatch, CountsEveryTokenOnceWithOtherSizes) {
  for (WindowSizes sizes : {WindowSizes{8, 0}, WindowSizes{8, 2}, WindowSizes{8, 7}})
    for (size_t length = 1; length < 40; ++length)
      EXPECT_EQ(coverage(length, 2, sizes), std::vector<int>(length, 1)) << length;
}

TEST(EvaluationBatch, WindowsStepByTheirTargets) {
  Batch batch = evaluation_batch(numbered(500), 0, 4);
  EXPECT_EQ(evaluation_windows(500), 3);
  EXPECT_EQ(batch.tokens[at(batch, 0, 0)], 1);
  EXPECT_EQ(batch.tokens[at(batch, 1, 0)], 224 - 32 + 1);
  EXPECT_EQ(batch.tokens[at(batch, 2, 0)], 448 - 32 + 1);
  EXPECT_EQ(batch.tokens[at(batch, 2, 83)], 500);
  EXPECT_EQ(batch.tokens[at(batch, 2, 84)], 0);
  EXPECT_EQ(batch.tokens[at(batch, 3, 0)], 0);
  EXPECT_EQ(counted(batch), 500);
}

TEST(EvaluationBatch, NothingIsCountedOfNothing) {
  EXPECT_EQ(evaluation_windows(0), 0);
  EXPECT_EQ(counted(evaluation_batch({}, 0, 2)), 0);
  EXPECT_EQ(counted(evaluation_batch(numbered(300), 2, 2)), 0);
}

TEST(Windows, RefuseSizesThatMakeNoSense) {
  std::vector<uint16_t> text = numbered(300);
  EXPECT_THROW(training_batch(text, 0, 1, 0), Error);
  EXPECT_THROW(training_batch(text, 1, 1, 0, {32, 32}), Error);
  EXPECT_THROW(evaluation_batch(text, 0, 1, {32, -1}), Error);
  EXPECT_THROW(evaluation_batch(text, -1, 1), Error);
  EXPECT_THROW(evaluation_windows(300, {16, 32}), Error);
}

}  // namespace
}  // namespace sigma1
