#include "sigma1/passes/precision.h"

#include <gtest/gtest.h>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

TEST(Precision, NamesMeanWhatThePaperMeans) {
  Precision single = Precision::named("fp32");
  EXPECT_EQ(single.activations, "fp32");
  EXPECT_EQ(single.matmul, "stored");
  EXPECT_FALSE(single.stochastic_weights);
  for (const char* name : {"fp16", "bf16"}) {
    Precision half = Precision::named(name);
    for (const std::string& format :
         {half.activations, half.weights, half.gradients, half.moment}) {
      EXPECT_EQ(format, name);
    }
    EXPECT_EQ(half.second_moment, "fp32");
    EXPECT_EQ(half.matmul, "stored");
    EXPECT_TRUE(half.stochastic_weights);
  }
  Precision eighth = Precision::named("fp8");
  EXPECT_EQ(eighth.activations, "fp16");
  EXPECT_EQ(eighth.gradients, "fp16");
  EXPECT_EQ(eighth.second_moment, "fp32");
  EXPECT_EQ(eighth.matmul, "fp8");
  EXPECT_EQ(eighth.scaling, CastScaling::none);
  EXPECT_THROW(Precision::named("fp4"), Error);
}

TEST(Precision, TheHeadIsNotCastByDefault) {
  Precision precision = Precision::named("fp8");
  EXPECT_EQ(precision.matmul_format("head/linear"), "stored");
  EXPECT_EQ(precision.matmul_format("grad/head/linear/matmul"), "stored");
  EXPECT_EQ(precision.matmul_format("header/linear"), "fp8");
  EXPECT_EQ(precision.matmul_format("layer0/head/linear"), "fp8");
  EXPECT_EQ(precision.matmul_format("layer0/ffn/up/linear"), "fp8");
}

TEST(Precision, TheLastOverrideThatMatchesCounts) {
  Precision precision;
  precision.matmul = "e4m3";
  precision.overrides = {{"layer*", "bf16"}, {"layer1", "e5m2"}, {"*/down/linear", "stored"}};
  EXPECT_EQ(precision.matmul_format("head/linear"), "e4m3");
  EXPECT_EQ(precision.matmul_format("layer0/ffn/up/linear"), "bf16");
  EXPECT_EQ(precision.matmul_format("layer1/ffn/up/linear"), "e5m2");
  EXPECT_EQ(precision.matmul_format("layer1/ffn/down/linear"), "stored");
  EXPECT_EQ(precision.matmul_format("layer10/ffn/up/linear"), "bf16");
  precision.overrides.push_back({"layer*", "bf16"});
  EXPECT_EQ(precision.matmul_format("layer1/ffn/down/linear"), "bf16");
}

// However a product is named, its two backward products go with it.
TEST(Precision, BackwardFollowsForward) {
  for (const char* pattern :
       {"layer0/ffn/up/linear", "layer0/ffn", "layer0", "layer*/ffn/up/linear", "*/up/linear",
        "*/up", "*up*", "layer*/ffn"}) {
    Precision precision;
    precision.overrides = {{pattern, "e4m3"}};
    EXPECT_EQ(precision.matmul_format("layer0/ffn/up/linear"), "e4m3") << pattern;
    EXPECT_EQ(precision.matmul_format("grad/layer0/ffn/up/linear/matmul"), "e4m3") << pattern;
    EXPECT_EQ(precision.matmul_format("grad/layer0/ffn/up/linear/matmul_2"), "e4m3") << pattern;
    EXPECT_EQ(precision.matmul_format("layer/attention/linear"), "stored") << pattern;
  }
}

TEST(Precision, ChecksFormats) {
  EXPECT_NO_THROW(check_formats(Precision::named("fp8")));
  auto refuses = [](auto set) {
    Precision precision;
    set(precision);
    EXPECT_THROW(check_formats(precision), Error);
  };
  refuses([](Precision& p) { p.activations = "fp31"; });
  refuses([](Precision& p) { p.second_moment = "stored"; });
  refuses([](Precision& p) { p.matmul = "f8"; });
  refuses([](Precision& p) { p.overrides = {{"head", "none"}}; });
}

// What overflows while stored must show; what overflows in a cast for a product must not.
TEST(Precision, StoresOverflowAndProductsSaturate) {
  EXPECT_EQ(quantize(1e6, storage_cast("fp16")), INFINITY);
  EXPECT_EQ(quantize(1e6, product_cast("fp16")), 65504);
  EXPECT_EQ(quantize(1e6, product_cast("e4m3")), 448);
  EXPECT_EQ(quantize(1e6, product_cast("e5m2")), 57344);
  EXPECT_EQ(quantize(1e6, storage_cast("e4m3")), 448);  // it has no infinity
  for (const char* format : {"fp32", "fp16", "bf16", "e4m3", "e5m2"}) {
    EXPECT_NO_THROW(check(storage_cast(format)));
    EXPECT_NO_THROW(check(product_cast(format)));
    EXPECT_EQ(storage_cast(format).rounding, Rounding::nearest_even);
  }
}

}  // namespace
}  // namespace sigma1
