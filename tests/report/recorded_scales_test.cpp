#include "sigma1/report/recorded_scales.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/train/scale_log.h"

namespace sigma1 {
namespace {

class RecordedScalesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& lines) const { write_file(folder_ / "scales.jsonl", lines); }
  std::string mistake() const {
    try {
      recorded_scales(folder_);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  std::filesystem::path folder_;
};

TensorScale scale_of(TensorRole role, const std::vector<float>& values) {
  TensorScale scale{.name = "layer0/x", .role = role, .format = "e4m3"};
  scale.stats.add(values);
  scale.loss.add(values, FormatLimits::of(find_format("e4m3").format));
  return scale;
}

// What is written of it again is what was written first, but for the last digits of sums.
TEST_F(RecordedScalesTest, AreThoseOfTheFirstAndTheLastProbe) {
  std::vector<TensorScale> first{
      scale_of(TensorRole::gradx, {0, 1, -1.5f, 4, 1e-6f, 1000, INFINITY}),
      scale_of(TensorRole::weight, {0, 0})};
  std::vector<TensorScale> last{scale_of(TensorRole::gradw, {0x1p-8f, 3e38f, 1e-45f})};
  write(scales_line(0, first) + "\n" + scales_line(5, {}) + "\n" + scales_line(9, last) + "\n");
  std::vector<RecordedScales> records = recorded_scales(folder_);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].step, 0);
  EXPECT_EQ(records[1].step, 9);
  ASSERT_EQ(records[0].tensors.size(), 2U);
  ASSERT_EQ(records[1].tensors.size(), 1U);
  for (auto [read, written] : {std::pair{&records[0].tensors[0], &first[0]},
                               {&records[0].tensors[1], &first[1]},
                               {&records[1].tensors[0], &last[0]}}) {
    EXPECT_EQ(read->name, written->name);
    EXPECT_EQ(read->role, written->role);
    EXPECT_EQ(read->format, written->format);
    EXPECT_EQ(read->stats.binades, written->stats.binades);
    EXPECT_EQ(read->stats.zeros, written->stats.zeros);
    EXPECT_EQ(read->stats.nonfinite, written->stats.nonfinite);
    EXPECT_EQ(read->stats.abs_max, written->stats.abs_max);
    EXPECT_EQ(read->loss.to_zero, written->loss.to_zero);
    EXPECT_EQ(read->loss.subnormal, written->loss.subnormal);
    EXPECT_EQ(read->loss.beyond, written->loss.beyond);
    EXPECT_DOUBLE_EQ(read->stats.rms(), written->stats.rms());
    EXPECT_NEAR(read->stats.std_dev(), written->stats.std_dev(), 1e-12 * written->stats.rms());
  }
}

TEST_F(RecordedScalesTest, MistakesNameThePlace) {
  EXPECT_NE(mistake().find("no scales.jsonl"), std::string::npos);
  write("");
  EXPECT_NE(mistake().find("it has none"), std::string::npos);
  write(scales_line(0, {}) + "\n{\"step\":1,\"tensors\":[{\"name\":\"x\"}]}\n");
  EXPECT_NE(mistake().find("scales.jsonl"), std::string::npos);
  std::string line = scales_line(0, std::vector{scale_of(TensorRole::gradx, {1})});
  line.replace(line.find("gradx"), 5, "gradz");
  write(line + "\n");
  EXPECT_NE(mistake().find("gradz"), std::string::npos);
}

}  // namespace
}  // namespace sigma1
