#include "sigma1/report/step_scaling_cost.h"

#include <gtest/gtest.h>

namespace sigma1 {
namespace {

TrainConfig paper_model() {
  TrainConfig config;
  config.precision = "fp8";
  return config;
}

// The paper's model of eight layers, its products counted by hand.
TEST(StepScalingCost, ProductsOfTheCharacterModel) {
  int64_t tokens = 8 * 256, width = 128, hidden = 512, vocabulary = 5008, layers = 8;
  int64_t heads = 2, pairs = 8 * heads * (256 * 257 / 2);
  int64_t dense = tokens * (layers * (4 * width * width + 2 * width * hidden) + width * vocabulary);
  int64_t positions = layers * 256 * 128 * width;
  int64_t attention = layers * 3 * pairs * (width / heads);
  // Nobody asks for the gradient of the sinusoids.
  EXPECT_EQ(step_scaling_cost(paper_model()).product_flops,
            2 * (3 * dense + 2 * positions + 3 * attention));
}

TEST(StepScalingCost, FoldingLeavesNoPassOverMemory) {
  StepScalingCost cost = step_scaling_cost(paper_model());
  EXPECT_EQ(cost.separate.bytes, 2 * 2 * cost.separate.multiplications);
  EXPECT_EQ(cost.folded.bytes, 0);
  EXPECT_TRUE(cost.folded.passes.empty());
  EXPECT_GT(cost.folded.in_products, cost.folded.multiplications / 2);
  EXPECT_EQ(cost.paper.hidden_size, 128);
  // Of ten products in a layer, three are attention's own.
  EXPECT_EQ(cost.paper.products, 8 * 10 + 1);
}

TEST(StepScalingCost, IsUnitScalingsWhateverTheMethodAndInItsBytes) {
  TrainConfig config = paper_model();
  config.size.depth = 1;
  StepScalingCost half = step_scaling_cost(config);
  config.method = "none";
  config.precision = "fp32";
  StepScalingCost whole = step_scaling_cost(config);
  EXPECT_EQ(half.separate.multiplications, whole.separate.multiplications);
  EXPECT_EQ(2 * half.separate.bytes, whole.separate.bytes);
}

}  // namespace
}  // namespace sigma1
