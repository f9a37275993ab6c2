// Sums, products and norms in every instruction set this machine has, against the same in double.
#include <bit>

#include "tests/backend/instruction_sets.h"

namespace sigma1::cpu {
namespace {

using VectorArithmeticTest = EachInstructionSet;

TEST_P(VectorArithmeticTest, ArithmeticIsWhatItSays) {
  const VectorKernels& v = vectors();
  Floats x = normal_numbers(kCount, "x"), y = normal_numbers(kCount, "y"), z(kCount), was = x;
  auto check = [&](auto formula) {
    for (size_t i = 0; i < x.size(); ++i) {
      double want = formula(static_cast<double>(x[i]), static_cast<double>(y[i]), was[i]);
      ASSERT_LE(ulps(z[i], want, std::max(std::fabs(want), 1.0)), 3) << i;
    }
  };
  v.scale(x.data(), z.data(), kCount, 1.5f);
  check([](double a, double, double) { return 1.5 * a; });
  z = was;
  v.add_scaled(y.data(), z.data(), kCount, 1.5f);
  check([](double, double b, double c) { return c + 1.5 * b; });
  v.combine(x.data(), y.data(), z.data(), kCount, 1.5f, -0.5f);
  check([](double a, double b, double) { return 1.5 * a - 0.5 * b; });
  v.multiply(x.data(), y.data(), z.data(), kCount, 1.5f);
  check([](double a, double b, double) { return 1.5 * a * b; });
  z = was;
  v.multiply_add(x.data(), y.data(), z.data(), kCount);
  check([](double a, double b, double c) { return a * b + c; });
  v.scale_add(x.data(), y.data(), z.data(), kCount, 1.5f);
  check([](double a, double b, double) { return 1.5 * (a + b); });
  v.multiply_shifted(x.data(), y.data(), z.data(), kCount, 0.25f, 1.5f);
  check([](double a, double b, double) { return 1.5 * a * (b - 0.25); });
}

TEST_P(VectorArithmeticTest, SumsTakeEveryElementOnce) {
  const VectorKernels& v = vectors();
  for (int64_t n = 0; n <= kCount; ++n) {
    Floats x = normal_numbers(n, "x"), y = normal_numbers(n, "y"), z(x.size());
    double sum = 0, dot = 0, exponentials = 0;
    float largest = -kInf, magnitude = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      sum += x[i];
      dot += static_cast<double>(x[i]) * y[i];
      exponentials += std::exp(0.5 * x[i] + 1);
      largest = std::max(largest, x[i]);
      magnitude = std::max(magnitude, std::fabs(x[i]));
    }
    EXPECT_NEAR(v.sum(x.data(), n), sum, 2e-5);
    EXPECT_NEAR(v.dot(x.data(), y.data(), n), dot, 2e-5);
    EXPECT_NEAR(v.exp_sum(x.data(), z.data(), n, 0.5f, -1), exponentials, 1e-6 * exponentials);
    EXPECT_EQ(v.largest(x.data(), n), largest);
    EXPECT_EQ(v.largest_magnitude(x.data(), n), magnitude);
    EXPECT_TRUE(v.all_finite(x.data(), n));
    if (n == 0) continue;
    x[x.size() / 2] = kNan;
    EXPECT_FALSE(v.all_finite(x.data(), n));
    EXPECT_EQ(v.largest_magnitude(x.data(), n), kInf);
    x[x.size() / 2] = -kInf;
    EXPECT_FALSE(v.all_finite(x.data(), n));
  }
}

TEST_P(VectorArithmeticTest, NormsFollowTheirFormula) {
  const VectorKernels& v = vectors();
  Floats x = normal_numbers(kCount, "x"), w = normal_numbers(kCount, "w");
  Floats dy = normal_numbers(kCount, "dy"), dx(kCount), dw(kCount, 1), dc(kCount, 2);
  for (bool centred : {true, false}) {
    double mean = 0, square = 0, along = 0, mean_slope = 0;
    for (float value : x) mean += centred ? value / double{kCount} : 0;
    for (float value : x) square += (value - mean) * (value - mean) / double{kCount};
    double inverse = 1 / std::sqrt(square + 0.01);
    NormRow row = v.norm_row(x.data(), kCount, 0.01f, centred);
    EXPECT_NEAR(row.mean, mean, 1e-6);
    EXPECT_NEAR(row.inverse_scale, inverse, 1e-6);
    for (size_t i = 0; i < x.size(); ++i) {
      mean_slope += centred ? static_cast<double>(dy[i]) * w[i] / double{kCount} : 0;
      along += dy[i] * w[i] * (x[i] - mean) * inverse / double{kCount};
    }
    std::fill(dw.begin(), dw.end(), 1.f);
    std::fill(dc.begin(), dc.end(), 2.f);
    dx = dy;  // in place
    v.norm_grad(x.data(), w.data(), dx.data(), dx.data(), kCount, row, centred, 1.5f);
    v.norm_weight_grad(x.data(), dy.data(), dw.data(), dc.data(), kCount, row);
    for (size_t i = 0; i < x.size(); ++i) {
      double xhat = (x[i] - mean) * inverse;
      double slope = static_cast<double>(dy[i]) * w[i] - mean_slope - xhat * along;
      ASSERT_NEAR(dx[i], 1.5 * inverse * slope, 1e-5);
      ASSERT_NEAR(dw[i], 1 + dy[i] * xhat, 1e-5);
      ASSERT_NEAR(dc[i], 2 + dy[i], 1e-6);
    }
  }
}

TEST_P(VectorArithmeticTest, CutsOffTheLowerHalf) {
  Floats x = normal_numbers(kCount, "x");
  std::vector<uint16_t> y(kCount);
  vectors().truncate_to_bf16(x.data(), y.data(), kCount);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], std::bit_cast<uint32_t>(x[i]) >> 16);
}

TEST_P(VectorArithmeticTest, LooksUpEveryCode) {
  std::vector<uint16_t> table(256);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint16_t>(i * 40503);
  std::vector<uint8_t> codes(2 * table.size() + 13);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 37);
  std::vector<uint16_t> y(codes.size());
  vectors().look_up(codes.data(), table.data(), y.data(), static_cast<int64_t>(y.size()));
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], table[codes[i]]);
}

INSTANTIATE_TEST_SUITE_P(All, VectorArithmeticTest, kInstructionSets);

}  // namespace
}  // namespace sigma1::cpu
