// What a GPU tells of a tensor is what the CPU finds in its numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/base/rng.h"
#include "sigma1/passes/precision.h"
#include "sigma1/runtime/probe.h"
#include "sigma1/runtime/store.h"

namespace sigma1 {
namespace {

class CudaTensorStats : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// Zeros of both signs, numbers that become subnormal or too large, and some that are not finite.
std::vector<float> numbers(int64_t count) {
  RandomStream random(3, "numbers");
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    auto index = static_cast<uint64_t>(i);
    int exponent = static_cast<int>(random.bits(index) % 60) - 40;
    float value = std::ldexp(static_cast<float>(random.normal(index)), exponent);
    values.push_back(i % 11 == 0 ? std::copysign(0.0f, value) : i % 1013 == 0 ? INFINITY : value);
  }
  return values;
}

TEST_P(CudaTensorStats, AreTheCpus) {
  for (int64_t count : {1, 255, 150'001, 5'000'000}) {
    Store there(cuda_device()), here;
    for (Store* store : {&there, &here}) {
      store->create("x", {{count}}, storage_cast(GetParam()));
      store->write("x", numbers(count));
    }
    TensorStats found = measure_stats(there.at("x")), expected = measure_stats(here.at("x"));
    EXPECT_EQ(found.count, count);
    EXPECT_EQ(found.zeros, expected.zeros);
    EXPECT_EQ(found.nonfinite, expected.nonfinite);
    EXPECT_EQ(found.abs_min, expected.abs_min);
    EXPECT_EQ(found.abs_max, expected.abs_max);
    EXPECT_EQ(found.binades, expected.binades);
    EXPECT_NEAR(found.rms(), expected.rms(), 1e-12 * expected.rms());
    EXPECT_NEAR(found.mean(), expected.mean(), 1e-12 * expected.rms());
    for (const char* format : {"e4m3", "e5m2", "fp16"}) {
      FormatLimits limits = FormatLimits::of(find_format(format).format);
      FormatLoss got = measure_loss(there.at("x"), limits),
                 want = measure_loss(here.at("x"), limits);
      EXPECT_EQ(got.to_zero, want.to_zero) << format;
      EXPECT_EQ(got.subnormal, want.subnormal) << format;
      EXPECT_EQ(got.beyond, want.beyond) << format;
    }
  }
}

TEST_P(CudaTensorStats, AreTheSameBitsEveryTime) {
  Store store(cuda_device());
  store.create("x", {{1'000'003}}, storage_cast(GetParam()));
  store.write("x", numbers(1'000'003));
  TensorStats once = measure_stats(store.at("x")), again = measure_stats(store.at("x"));
  EXPECT_EQ(once.sum, again.sum);
  EXPECT_EQ(once.sum_squares, again.sum_squares);
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaTensorStats,
                         testing::Values("fp32", "fp16", "bf16", "e4m3", "e5m2"));

}  // namespace
}  // namespace sigma1
