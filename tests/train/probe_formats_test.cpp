// Which format a probe judges a tensor by, against those that the run's graph really has.
#include <set>

#include "sigma1/base/error.h"
#include "tests/train/probed_session.h"

namespace sigma1 {
namespace {

TEST_F(ScaleProbeTest, FormatsAreThoseThatTheRunCastsTo) {
  for (const TensorScale& each : scales_of({{"precision", "fp8"}, {"method", "unit"}})) {
    std::string eight = is_gradient(each.role) ? "e5m2" : "e4m3";
    EXPECT_EQ(each.format, each.products.empty() ? "fp16" : eight) << each.name;
  }
  ByName scales = by_name(scales_of({{"precision", "fp8"}}));
  auto format = [&](TensorRole role, const char* name) { return scales.at({role, name}).format; };
  EXPECT_EQ(format(TensorRole::weight, "layer0/ffn/up/weight"), "e4m3");
  EXPECT_EQ(format(TensorRole::weight, "layer0/attention/query/weight"), "e4m3");
  EXPECT_EQ(format(TensorRole::activation, "layer0/ffn/relu"), "e4m3");
  EXPECT_EQ(format(TensorRole::gradx, "layer0/ffn/up/linear"), "e5m2");
  EXPECT_EQ(format(TensorRole::gradw, "layer0/ffn/up/weight"), "fp16");
  EXPECT_EQ(format(TensorRole::weight, "layer0/ffn/up/bias"), "fp16");
  EXPECT_EQ(format(TensorRole::weight, "head/weight"), "fp16");
  EXPECT_EQ(format(TensorRole::gradx, "head/linear"), "fp16");
  for (const char* precision : {"fp32", "fp16", "bf16"}) {
    for (const TensorScale& each : scales_of({{"precision", precision}})) {
      EXPECT_EQ(each.format, precision) << each.name;
      EXPECT_TRUE(each.products.empty()) << each.name;
    }
  }
}

TEST_F(ScaleProbeTest, ProductsNameWhatAnOverrideTakes) {
  Session session(tiny_config({{"precision", "fp8"}, {"method", "unit"}}), corpus_);
  std::set<std::string> forward = forward_names(session);
  size_t with_products = 0;
  for (const TensorScale& each : scales_of(session)) {
    if (each.products.empty()) continue;
    ++with_products;
    TrainConfig config = session.config();
    for (const std::string& product : each.products) {
      EXPECT_TRUE(forward.contains(product)) << product;
      if (!config.matmul_overrides.empty()) config.matmul_overrides += ",";
      config.matmul_overrides += product + "=fp16";
    }
    ProbeOptions only{.filter = fmt::format("{}:{}", to_string(each.role), each.name)};
    ByName changed =
        by_name(session_scales(session, config, batch_of(session.config(), corpus_, 0), only));
    const TensorScale& now = changed.at({each.role, each.name});
    EXPECT_EQ(now.format, "fp16") << each.name;
    EXPECT_TRUE(now.products.empty()) << each.name;
    EXPECT_EQ(now.stats.sum_squares, each.stats.sum_squares) << each.name;
  }
  EXPECT_GT(with_products, 10u);
}

// The norm's output goes to query, key and value.
// What attention's query, key and value read alike.
TEST_F(ScaleProbeTest, OfSeveralFormatsTheNarrowestCounts) {
  using Words = std::vector<std::string>;
  const std::string query = "layer0/attention/linear", key = "layer0/attention/matmul",
                    value = "layer0/attention/matmul_2";
  auto read = [&](const std::string& overrides) {
    ByName scales = by_name(
        scales_of({{"precision", "fp32"}, {"matmul", "fp16"}, {"matmul-overrides", overrides}}));
    return scales.at({TensorRole::activation, "layer0/norm/layer_norm"});
  };
  EXPECT_EQ(read("").format, "fp16");
  EXPECT_EQ(read("").products, (Words{query, key, value}));
  TensorScale first = read(query + "=e4m3");
  EXPECT_EQ(first.format, "e4m3");
  EXPECT_EQ(first.products, (Words{query}));
  TensorScale second = read(key + "=e3m2," + query + "=e4m3");
  EXPECT_EQ(second.format, "e3m2");
  EXPECT_EQ(second.products, (Words{key}));
}

TEST_F(ScaleProbeTest, AFormatThatIsAskedForCountsForAll) {
  for (const TensorScale& each : scales_of({{"precision", "fp8"}}, {.format = "fp4_e2m1"})) {
    EXPECT_EQ(each.format, "e2m1");
  }
  for (const TensorScale& each : scales_of({{"precision", "fp32"}}, {.format = "fp8"})) {
    EXPECT_EQ(each.format, is_gradient(each.role) ? "e5m2" : "e4m3") << each.name;
  }
  EXPECT_THROW(scales_of({}, {.format = "fp7"}), Error);
}

// A head so small that the gradients behind it vanish in E5M2, unless each finds a scale.
TEST_F(ScaleProbeTest, PerTensorScalesAreReckonedIn) {
  auto measured = [&](const char* method) {
    Session session(tiny_config({{"method", method}, {"precision", "fp8"}}), corpus_);
    ScaleProbe probe(session.config(), session.alignment(), {});
    copy_state(session, probe);
    std::vector<float> head = session.store().read("head/weight");
    for (float& each : head) each *= 0x1p-24f;
    probe.store().write("head/weight", head);
    write_batch(probe.store(), batch_of(session.config(), corpus_, 0));
    return by_name(probe.measure());
  };
  ByName plain = measured("none");
  for (const char* method : {"per-tensor=current", "per-tensor=delayed"}) {
    size_t judged = 0;
    for (const auto& [key, scale] : measured(method)) {
      const TensorScale& before = plain.at(key);
      EXPECT_EQ(scale.format, before.format) << key.second;
      EXPECT_EQ(scale.stats.sum_squares, before.stats.sum_squares) << key.second;
      if (scale.products.empty()) {
        EXPECT_EQ(scale.lost(), before.lost()) << key.second;
        continue;
      }
      EXPECT_EQ(scale.saturated(), 0) << key.second;
      EXPECT_LT(scale.lost(), 0.05) << key.second;
      if (key.first != TensorRole::gradx) continue;
      EXPECT_EQ(before.lost(), 1) << key.second;
      ++judged;
    }
    EXPECT_GT(judged, 4u);
  }
}

}  // namespace
}  // namespace sigma1
