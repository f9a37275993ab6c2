// How tensors are stored does not decide what is learned: two schemes given the same function learn
// the same. This is what lets a scheme be chosen for its numbers alone.
#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/rng.h"
#include "sigma1/train/align.h"
#include "sigma1/train/session.h"

namespace sigma1 {
namespace {

constexpr int64_t kCharacters = 11;

Batch batch_of(const TrainConfig& config, uint64_t step) {
  auto size = static_cast<size_t>(config.size.batch * config.size.time);
  Batch batch{std::vector<uint16_t>(size), std::vector<float>(size, 1), config.size.batch,
              config.size.time};
  RandomStream random(5, "same function", step);
  // Each character mostly follows from the one before, so that there is something to learn.
  for (size_t i = 0; i < size; ++i) {
    bool surprise = i == 0 || random.uniform(2 * i) < 0.2;
    batch.tokens[i] = static_cast<uint16_t>(surprise ? random.bits(2 * i + 1) % kCharacters
                                                     : (3 * batch.tokens[i - 1] + 1) % kCharacters);
  }
  return batch;
}

TrainConfig config_of(const char* scheme, const std::string& norm) {
  TrainConfig config;
  config.precision = "fp32";
  config.scheme = scheme;
  config.size.norm = norm;
  config.size.batch = 4;
  config.size.time = 32;
  config.size.width = 32;
  config.size.hidden = 64;
  config.size.depth = 3;
  config.size.vocabulary = kCharacters;
  config.steps = 60;
  config.rate = 0x1p-6;
  return config;
}

std::vector<double> losses(const TrainConfig& config, const JoinWeights& joins) {
  Alignment alignment{joins, {}};
  StepGraph gradients = gradient_graph(config, alignment, cpu_device()),
            update = update_graph(config, alignment);
  Store store;
  Program forward_backward(gradients.graph, store, gradients.stored);
  Program next(update.graph, store, update.stored);
  initialise_parameters(store, *gradients.graph, 0);
  std::vector<double> result;
  for (int64_t step = 0; step < config.steps; ++step) {
    write_batch(store, batch_of(config, static_cast<uint64_t>(step)));
    forward_backward.run(static_cast<uint64_t>(step));
    store.fill(kRate, static_cast<float>(rate_at(config.resolved_schedule(), step)));
    store.fill(kStepCount, static_cast<float>(step + 1));
    next.run(static_cast<uint64_t>(step));
    result.push_back(forward_backward.scalar("loss"));
  }
  return result;
}

class SameFunctionTest : public testing::TestWithParam<std::string> {};

TEST_P(SameFunctionTest, TwoSchemesLearnTheSame) {
  TrainConfig paper = config_of("paper", GetParam()), exact = config_of("exact", GetParam());
  Batch batch = batch_of(paper, 0);
  JoinWeights of_paper = aligned_weights(measure_joins(paper, batch));
  std::vector<JoinScales> reference = measure_joins(scaled_model(paper, {of_paper, {}}), 0, batch);
  JoinWeights of_exact = of_paper;
  // A branch is measured right once all joins before it are: one more with each round.
  for (size_t round = 0; round < reference.size(); ++round) {
    of_exact =
        matched_weights(reference, measure_joins(scaled_model(exact, {of_exact, {}}), 0, batch));
  }
  std::vector<double> first = losses(paper, of_paper), second = losses(exact, of_exact);
  std::vector<double> unmatched = losses(exact, aligned_weights(measure_joins(paper, batch)));
  EXPECT_NEAR(first.front(), second.front(), 1e-5);
  EXPECT_LT(first.back(), 0.8 * first.front());  // it does learn
  double apart = 0, apart_unmatched = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    apart = std::max(apart, std::fabs(first[i] - second[i]));
    apart_unmatched = std::max(apart_unmatched, std::fabs(first[i] - unmatched[i]));
  }
  EXPECT_LT(apart, 2e-3);
  EXPECT_GT(apart_unmatched, 5 * apart);  // another function is seen to be another
}

INSTANTIATE_TEST_SUITE_P(Norms, SameFunctionTest, testing::Values("pre", "post"));

}  // namespace
}  // namespace sigma1
