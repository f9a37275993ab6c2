#include "sigma1/train/scale_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

TensorScale scale_of(const std::vector<float>& values) {
  TensorScale scale{.name = "layer0/\"x\"", .role = TensorRole::gradx, .format = "e4m3"};
  scale.stats.add(values);
  scale.loss.add(values, FormatLimits::of(find_format("e4m3").format));
  return scale;
}

TEST(ScaleLog, OneTensorHasEveryNumberInOrder) {
  TensorScale scale = scale_of({0, 1, -1.5f, 4, 0x1p-8f, 1e-6f, 1000, INFINITY});
  EXPECT_EQ(scale_json(scale, HistogramJson::without),
            fmt::format("{{\"name\":\"layer0/\\\"x\\\"\",\"role\":\"gradx\",\"format\":\"e4m3\","
                        "\"count\":8,\"mean\":{},\"std\":{},\"rms\":{},\"abs_max\":1000.0,"
                        "\"abs_min\":{},\"zero\":0.125,\"subnormal\":0.125,\"saturated\":0.25,"
                        "\"nonfinite\":0.125,\"lost\":{}}}",
                        scale.stats.mean(), scale.stats.std_dev(), scale.stats.rms(),
                        static_cast<double>(1e-6f), 3.0 / 7));
}

TEST(ScaleLog, AHistogramStartsAtItsFirstExponent) {
  Json json = Json::parse(scale_json(scale_of({0, 0.25f, 1, 1.9f, -3}), HistogramJson::with));
  EXPECT_EQ(json["first_exponent"], -2);
  EXPECT_EQ(json["histogram"], (std::vector<int64_t>{1, 0, 2, 1}));
  json = Json::parse(scale_json(scale_of({1e-45f, 3e38f}), HistogramJson::with));
  EXPECT_EQ(json["first_exponent"], -127);
  EXPECT_EQ(json["histogram"].size(), 255u);
  EXPECT_EQ(json["histogram"][0], 1);
  EXPECT_EQ(json["histogram"][254], 1);
  json = Json::parse(scale_json(scale_of({0, NAN}), HistogramJson::with));
  EXPECT_TRUE(json["histogram"].empty());
  EXPECT_FALSE(
      Json::parse(scale_json(scale_of({1}), HistogramJson::without)).contains("histogram"));
}

TEST(ScaleLog, ALineIsOneStepWithItsTensors) {
  std::vector<TensorScale> scales{scale_of({1}), scale_of({2, 3})};
  std::string line = scales_line(12, scales);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  Json json = Json::parse(line);
  EXPECT_EQ(json["step"], 12);
  ASSERT_EQ(json["tensors"].size(), 2u);
  EXPECT_EQ(json["tensors"][1].dump(), scale_json(scales[1], HistogramJson::with));
  EXPECT_EQ(scales_line(3, {}), "{\"step\":3,\"tensors\":[]}");
}

}  // namespace
}  // namespace sigma1
