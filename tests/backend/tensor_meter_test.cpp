// What a device finds in tensors is what is in the numbers that are read from them.
#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/parallel.h"
#include "sigma1/base/rng.h"
#include "sigma1/passes/precision.h"
#include "sigma1/runtime/store.h"
#include "tests/numerics/stats_checks.h"

namespace sigma1 {
namespace {

// More than two of the pieces that are measured at a time.
constexpr int64_t kCount = 150'001;

std::vector<float> spread_numbers() {
  RandomStream random(4, "spread");
  std::vector<float> values;
  for (uint64_t i = 0; i < kCount; ++i) {
    int exponent = static_cast<int>(random.bits(i) % 24) - 12;
    values.push_back(std::ldexp(static_cast<float>(random.normal(i)), exponent));
  }
  return values;
}

class CpuMeterOf : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    store_.create("x", {{kCount}}, storage_cast(GetParam()));
    store_.write("x", spread_numbers());
  }
  void TearDown() override { set_thread_count(0); }

  TensorFindings look(float fit_to = 0) const {
    std::unique_ptr<TensorMeter> meter = cpu_device().make_meter();
    meter->look_at(store_.at("x"), kLimits, fit_to);
    return meter->take().front();
  }

  inline static const FormatLimits kLimits = FormatLimits::of(find_format("e2m3").format);
  Store store_;
};

TEST_P(CpuMeterOf, FindsWhatIsStored) {
  auto [got, loss] = look();
  TensorStats want;
  want.add(store_.read("x"));
  expect_counts(got, want);
  EXPECT_NEAR(got.mean(), want.mean(), 1e-13 * want.rms());
  EXPECT_NEAR(got.rms(), want.rms(), 1e-13 * want.rms());
  FormatLoss expected;
  expected.add(store_.read("x"), kLimits);
  EXPECT_GT(loss.to_zero * loss.subnormal * loss.beyond, 0);
  expect_counts(loss, expected);
}

TEST_P(CpuMeterOf, ScalesSoThatTheLargestFits) {
  constexpr float kFits = 3;
  TensorFindings found = look(kFits);
  std::vector<float> scaled = store_.read("x");
  for (float& each : scaled) each *= kFits / found.stats.abs_max;
  FormatLoss expected;
  expected.add(scaled, kLimits);
  EXPECT_GT(expected.to_zero, 0);
  EXPECT_EQ(found.loss.beyond, 0);
  // What lies at a limit may fall on either side.
  EXPECT_NEAR(static_cast<double>(found.loss.to_zero), static_cast<double>(expected.to_zero), 3);
  EXPECT_NEAR(static_cast<double>(found.loss.subnormal), static_cast<double>(expected.subnormal),
              3);
}

TEST_P(CpuMeterOf, FindsTheSameBitsOnAnyNumberOfThreads) {
  set_thread_count(1);
  TensorStats one = look().stats;
  for (int threads : {2, 4}) {
    set_thread_count(threads);
    TensorStats many = look().stats;
    EXPECT_EQ(many.sum, one.sum);
    EXPECT_EQ(many.sum_squares, one.sum_squares);
    EXPECT_EQ(many.binades, one.binades);
    EXPECT_EQ(many.count, one.count);
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, CpuMeterOf, testing::Values("fp32", "fp16", "e4m3"));

TEST(CpuMeter, TellsOfTensorsInTheirOrderAndForgetsThem) {
  Store store;
  std::unique_ptr<TensorMeter> meter = cpu_device().make_meter();
  EXPECT_TRUE(meter->take().empty());
  for (int64_t size : {1, 2, 3}) {
    std::string name = std::to_string(size);
    store.create(name, {{size}}, storage_cast("fp32"));
    store.fill(name, 2);
    meter->look_at(store.at(name), FormatLimits::of(find_format("e4m3").format), 0);
    store.fill(name, 5);  // later
  }
  std::vector<TensorFindings> found = meter->take();
  ASSERT_EQ(found.size(), 3u);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].stats.count, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(found[i].stats.abs_max, 2);
  }
  EXPECT_TRUE(meter->take().empty());
}

}  // namespace
}  // namespace sigma1
