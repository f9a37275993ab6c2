// What a GPU tells of tensors is what the CPU finds in their numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/base/rng.h"
#include "sigma1/passes/precision.h"
#include "sigma1/runtime/store.h"
#include "tests/numerics/stats_checks.h"

namespace sigma1 {
namespace {

class CudaMeterOf : public testing::TestWithParam<const char*> {
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

// Of tensors of several sizes, each in several formats and in one that its numbers are fitted to.
std::vector<TensorFindings> findings(const Device& device, const char* format) {
  Store store(device);
  std::unique_ptr<TensorMeter> meter = device.make_meter();
  for (int64_t count : {1, 255, 150'001, 5'000'000}) {
    std::string name = std::to_string(count);
    store.create(name, {{count}}, storage_cast(format));
    store.write(name, numbers(count));
    for (const char* judge : {"e4m3", "e5m2", "fp16"}) {
      meter->look_at(store.at(name), FormatLimits::of(find_format(judge).format), 0);
    }
    meter->look_at(store.at(name), FormatLimits::of(find_format("e4m3").format), 448);
  }
  return meter->take();
}

TEST_P(CudaMeterOf, FindsWhatTheCpuDoes) {
  std::vector<TensorFindings> found = findings(cuda_device(), GetParam()),
                              expected = findings(cpu_device(), GetParam());
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE(i);
    const auto& [got, got_loss] = found[i];
    const auto& [want, want_loss] = expected[i];
    expect_counts(got, want);
    EXPECT_NEAR(got.rms(), want.rms(), 1e-12 * want.rms());
    EXPECT_NEAR(got.mean(), want.mean(), 1e-12 * want.rms());
    expect_counts(got_loss, want_loss);
  }
}

TEST_P(CudaMeterOf, FindsTheSameBitsEveryTime) {
  std::vector<TensorFindings> once = findings(cuda_device(), GetParam()),
                              again = findings(cuda_device(), GetParam());
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].stats.sum, again[i].stats.sum);
    EXPECT_EQ(once[i].stats.sum_squares, again[i].stats.sum_squares);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaMeterOf,
                         testing::Values("fp32", "fp16", "bf16", "e4m3", "e5m2"));

// More than are kept in one piece of memory, again and again, each as it was when it was looked at.
TEST(CudaMeter, TellsOfManyTensors) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  constexpr int kTensors = 600;
  Store store(cuda_device());
  store.create("x", {{100}}, storage_cast("fp32"));
  std::unique_ptr<TensorMeter> meter = cuda_device().make_meter();
  for (int turn = 1; turn <= 2; ++turn) {
    for (int i = 0; i < kTensors; ++i) {
      store.fill("x", static_cast<float>(turn * i));
      meter->look_at(store.at("x"), FormatLimits::of(find_format("e4m3").format), 0);
    }
    std::vector<TensorFindings> found = meter->take();
    ASSERT_EQ(found.size(), static_cast<size_t>(kTensors));
    for (int i = 0; i < kTensors; ++i) {
      EXPECT_EQ(found[static_cast<size_t>(i)].stats.sum, 100.0 * turn * i);
    }
  }
}

TEST(CudaStore, CopiesAnothersNumbers) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const char* format : {"fp32", "fp16", "bf16", "e5m2"}) {
    Store from(cuda_device()), to(cuda_device()), here;
    for (Store* store : {&from, &to, &here}) {
      store->create("x", {{1000}}, storage_cast(store == &from ? format : "fp32"));
    }
    from.write("x", numbers(1000));
    to.copy("x", from);
    here.copy("x", from);
    EXPECT_EQ(to.read("x"), from.read("x")) << format;
    EXPECT_EQ(here.read("x"), from.read("x")) << format;
  }
}

}  // namespace
}  // namespace sigma1
