#include "sigma1/train/underflow.h"

#include <gtest/gtest.h>

#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

Underflow underflow_of(Settings settings) {
  static const Corpus corpus = tiny_corpus();
  TrainConfig config = tiny_config(settings);
  Session session(config, corpus);
  return measure_underflow(session, batch_of(session.config(), corpus, 0));
}

TEST(Underflow, SinglePrecisionLosesNothing) {
  Underflow underflow = underflow_of({{"precision", "fp32"}});
  EXPECT_GT(underflow.tensors.size(), 5U);
  EXPECT_EQ(underflow.lost, 0);
  EXPECT_EQ(underflow.worst().name, "");
}

// A loss scale far below one pushes gradients out of the format, and only the format decides.
TEST(Underflow, SmallGradientsAreSeenToVanish) {
  Underflow few = underflow_of({{"precision", "fp8"}, {"method", "loss-scale=2^-6"}});
  Underflow most = underflow_of({{"precision", "fp8"}, {"method", "loss-scale=2^-14"}});
  EXPECT_GT(few.lost, 0);
  EXPECT_GT(most.lost, 0.5);
  EXPECT_GT(most.lost, few.lost);
  EXPECT_GE(most.worst().lost, most.lost);
  EXPECT_TRUE(most.worst().name.starts_with("grad/")) << most.worst().name;
  EXPECT_EQ(underflow_of({{"precision", "fp32"}, {"method", "loss-scale=2^-14"}}).lost, 0);
}

// What remains are not small gradients: rounding an activation moves some across relu's border.
TEST(Underflow, UnitScalingKeepsItsGradients) {
  EXPECT_LT(underflow_of({{"precision", "fp16"}, {"method", "unit"}}).lost, 0.01);
  EXPECT_LT(underflow_of({{"precision", "fp8"}, {"method", "unit"}}).lost, 0.05);
}

}  // namespace
}  // namespace sigma1
