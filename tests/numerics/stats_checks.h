// Whether two looks at the same numbers found the same; sums, whose last digits depend on how a
// tensor is cut, are the test's own business.
#pragma once

#include <gtest/gtest.h>

#include "sigma1/numerics/tensor_stats.h"

namespace sigma1 {

inline void expect_counts(const TensorStats& got, const TensorStats& want) {
  EXPECT_EQ(got.count, want.count);
  EXPECT_EQ(got.zeros, want.zeros);
  EXPECT_EQ(got.nonfinite, want.nonfinite);
  EXPECT_EQ(got.abs_min, want.abs_min);
  EXPECT_EQ(got.abs_max, want.abs_max);
  EXPECT_EQ(got.binades, want.binades);
}

inline void expect_counts(const FormatLoss& got, const FormatLoss& want) {
  EXPECT_EQ(got.to_zero, want.to_zero);
  EXPECT_EQ(got.subnormal, want.subnormal);
  EXPECT_EQ(got.beyond, want.beyond);
}

}  // namespace sigma1
