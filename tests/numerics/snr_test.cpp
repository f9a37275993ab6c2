#include "sigma1/numerics/snr.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

Cast cast_to(const char* name, Rounding rounding = Rounding::nearest_even) {
  return {find_format(name).format, rounding};
}

// The definition by brute force: a fine midpoint rule over quantize() itself.
double brute_force_snr(const Cast& cast, double sigma) {
  constexpr int kSteps = 4'000'000;
  constexpr double kRange = 10;
  double noise = 0, signal = 0;
  for (int i = 0; i < kSteps; ++i) {
    double z = kRange * (2 * (i + 0.5) / kSteps - 1);
    double weight = std::exp(-z * z / 2), x = z * sigma;
    double error = quantize(x, cast) - x;
    noise += weight * error * error;
    signal += weight * x * x;
  }
  return signal / noise;
}

TEST(Snr, EqualsTheDefinition) {
  Cast scaled_int8 = cast_to("int8");
  scaled_int8.scale = 0.7f;
  const std::pair<Cast, double> cases[] = {
      {cast_to("fp8_e4m3"), 1},
      {cast_to("fp8_e4m3"), 0x1p-8},
      {cast_to("fp8_e4m3"), 300},
      {cast_to("fp8_e5m2fnuz"), 0x1p-15},
      {cast_to("fp4_e2m1"), 1},
      {cast_to("fp6_e2m3"), 20},
      {scaled_int8, 1},
      {scaled_int8, 60},
      {cast_to("bf16"), 1},
      {cast_to("fp8_e4m3", Rounding::toward_zero), 1},
      {cast_to("fp8_e5m2", Rounding::toward_zero), 0x1p-16},
  };
  for (const auto& [cast, sigma] : cases) {
    double expected = brute_force_snr(cast, sigma);
    EXPECT_NEAR(normal_snr(cast, sigma), expected, 1e-4 * expected)
        << "e" << cast.format.exponent_bits << "m" << cast.format.mantissa_bits << " at " << sigma;
  }
}

// Where binades are integrated as a whole, doing so must not show.
TEST(Snr, FineFormatsContinueTheCoarse) {
  for (int mantissa_bits : {9, 10, 11}) {
    double here = normal_snr({{8, mantissa_bits, 127, Specials::ieee}}, 1);
    double next = normal_snr({{8, mantissa_bits + 1, 127, Specials::ieee}}, 1);
    EXPECT_NEAR(next / here, 4, 1e-4) << mantissa_bits;
  }
}

TEST(Snr, StochasticIsTwiceTheNoiseOfNearest) {
  double nearest = normal_snr(cast_to("fp16"), 1);
  EXPECT_NEAR(nearest / normal_snr(cast_to("fp16", Rounding::stochastic), 1), 2, 1e-4);
}

TEST(Snr, AllIsLostBelowTheSmallestAndBeyondTheLargest) {
  EXPECT_NEAR(normal_snr(cast_to("fp8_e4m3"), 0x1p-24), 1, 1e-9);
  EXPECT_NEAR(normal_snr(cast_to("fp8_e4m3"), 1e9), 1, 1e-3);
}

TEST(Snr, UnitScaleIsOnThePlateau) {
  // Figure 2's argument for σ = 1: in each format as good as anywhere, to a few percent.
  for (const char* name : {"fp16", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz"}) {
    double best = 0;
    for (int exponent = -24; exponent <= 16; ++exponent) {
      best = std::max(best, normal_snr(cast_to(name), std::ldexp(1, exponent)));
    }
    EXPECT_GT(normal_snr(cast_to(name), 1), 0.95 * best) << name;
  }
}

TEST(Snr, RefusesASigmaThatIsNone) {
  for (double sigma : {0.0, -1.0, double{INFINITY}, double{NAN}}) {
    EXPECT_THROW(normal_snr(cast_to("fp16"), sigma), Error);
  }
}

TEST(Snr, OutlierBinsOfInt8AreThePapers) {
  for (const OutlierFinding& finding : outlier_findings()) {
    if (finding.quantity == "bins used by INT8") {
      EXPECT_EQ(finding.ours, finding.paper);
    }
  }
}

}  // namespace
}  // namespace sigma1
