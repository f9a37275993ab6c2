// What the tests of the inner loops share: every instruction set this machine has, numbers, and how
// far a result is from the true one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/rng.h"
#include "sigma1/numerics/convert.h"

namespace sigma1::cpu {

using Floats = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kCount = 133;  // whole vectors of every width and a rest

class EachInstructionSet : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    before_ = instruction_set();
    if (!is_supported(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    force_instruction_set(GetParam());
  }
  void TearDown() override { force_instruction_set(before_); }

 private:
  InstructionSet before_;
};

// In units of the last place that fp32 has at `size`. The last 2^8 before subnormal numbers count
// as those: their products have lost bits.
inline double ulps(float got, double want, double size) {
  auto nearest = static_cast<float>(want);
  if (std::isinf(nearest) || std::isnan(nearest)) {
    bool same = std::isnan(nearest) ? std::isnan(got) : got == nearest;
    return same ? 0 : 1e30;
  }
  int exponent = 0;
  std::frexp(std::max(size, 0x1p-118), &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - 24);
}

inline Floats normal_numbers(int64_t n, const char* name) {
  RandomStream random(5, name);
  Floats x;
  for (int64_t i = 0; i < n; ++i)
    x.push_back(static_cast<float>(random.normal(static_cast<uint64_t>(i))));
  return x;
}

inline const auto kInstructionSets =
    testing::Values(InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512);

}  // namespace sigma1::cpu
