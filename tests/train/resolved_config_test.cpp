// What the words of a config amount to: method, formats, rates.
#include <gtest/gtest.h>

#include "sigma1/base/error.h"
#include "sigma1/train/train_config.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

TEST(Method, ParsesEveryKind) {
  EXPECT_EQ(Method::parse("none").kind, Method::Kind::none);
  EXPECT_EQ(Method::parse("unit").kind, Method::Kind::unit);
  EXPECT_EQ(Method::parse("auto-loss-scale").kind, Method::Kind::auto_loss_scale);
  EXPECT_EQ(Method::parse("loss-scale=2^10").loss_scale, 1024);
  EXPECT_EQ(Method::parse("loss-scale=2^10").kind, Method::Kind::loss_scale);
  EXPECT_EQ(Method::parse("per-tensor=current").scaling, CastScaling::current);
  EXPECT_EQ(Method::parse("per-tensor=delayed").scaling, CastScaling::delayed);
  EXPECT_EQ(Method::parse("none").loss_scale, 1);
  EXPECT_EQ(Method::parse("none").scaling, CastScaling::none);
  for (const char* text :
       {"", "Unit", "loss-scale", "loss-scale=", "loss-scale=0", "loss-scale=-1", "loss-scale=inf",
        "loss-scale=nan", "loss-scale=x", "per-tensor", "per-tensor=", "per-tensor=x", "none "}) {
    std::string message = error_of([&] { Method::parse(text); });
    EXPECT_TRUE(message.starts_with("method: expected")) << text;
    EXPECT_TRUE(message.ends_with(fmt::format("'{}'", text))) << message;
  }
}

TEST(ResolvedPrecision, NamesStandForFormats) {
  TrainConfig config;
  config.precision = "fp32";
  Precision fp32 = config.resolved_precision();
  EXPECT_EQ(fp32.activations + fp32.weights + fp32.gradients + fp32.moment, "fp32fp32fp32fp32");
  EXPECT_EQ(fp32.matmul, "stored");
  EXPECT_FALSE(fp32.stochastic_weights);
  config.precision = "fp8";
  Precision fp8 = config.resolved_precision();
  EXPECT_EQ(fp8.activations + fp8.weights + fp8.gradients + fp8.moment, "fp16fp16fp16fp16");
  EXPECT_EQ(fp8.second_moment, "fp32");
  EXPECT_EQ(fp8.matmul_format("layer0/ffn/up"), "fp8");
  EXPECT_EQ(fp8.matmul_format("head/linear"), "stored");
  EXPECT_EQ(fp8.matmul_format("grad/head/linear"), "stored");
  EXPECT_TRUE(fp8.stochastic_weights);
}

TEST(ResolvedPrecision, FinerSettingsGoOverTheName) {
  TrainConfig config;
  for (auto [key, text] : {std::pair{"precision", "fp8"},
                           {"activations", "bf16"},
                           {"weights", "fp32"},
                           {"gradients", "e5m2"},
                           {"moment", "fp32"},
                           {"matmul", "e4m3"},
                           {"matmul-overrides", "head=fp16,layer0/*=stored"},
                           {"weight-rounding", "nearest"},
                           {"master-weights", "true"},
                           {"method", "per-tensor=delayed"}}) {
    config.set(key, text);
  }
  Precision result = config.resolved_precision();
  EXPECT_EQ(result.activations, "bf16");
  EXPECT_EQ(result.weights, "fp32");
  EXPECT_EQ(result.gradients, "e5m2");
  EXPECT_EQ(result.moment, "fp32");
  EXPECT_EQ(result.matmul_format("layer1/ffn"), "e4m3");
  EXPECT_EQ(result.matmul_format("layer0/ffn"), "stored");
  EXPECT_EQ(result.matmul_format("head"), "fp16");
  EXPECT_FALSE(result.stochastic_weights);
  EXPECT_TRUE(result.master_weights);
  EXPECT_EQ(result.scaling, CastScaling::delayed);
}

TEST(ResolvedSchedule, RateSuitsMethodAndOptimiserUnlessGiven) {
  TrainConfig config;
  auto rate = [&](const char* method, const char* optimiser) {
    config.method = method;
    config.optimiser = optimiser;
    return config.resolved_schedule().rate;
  };
  EXPECT_GT(rate("unit", "adam"), rate("none", "adam"));
  EXPECT_EQ(rate("none", "adam"), rate("loss-scale=8", "adamw"));
  EXPECT_NE(rate("none", "adam"), rate("none", "sgd"));
  config.rate = 0.125;
  EXPECT_EQ(rate("unit", "sgd"), 0.125);
  config.half_life = 100;
  EXPECT_EQ(config.resolved_schedule().half_life, 100);
}

}  // namespace
}  // namespace sigma1
