#include "sigma1/numerics/gaussian.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

double density(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }
double upper_tail(double z) { return std::erfc(z / std::numbers::sqrt2) / 2; }

void expect_relative(double actual, double expected, double tolerance) {
  EXPECT_NEAR(actual, expected, tolerance * std::fabs(expected));
}

TEST(NormalExpectation, SmoothFunctionsToTenDigits) {
  double moment = 1;
  for (int power = 0; power <= 20; power += 2) {
    SCOPED_TRACE(power);
    expect_relative(normal_expectation([&](double z) { return std::pow(z, power); }), moment,
                    1e-10);
    moment *= power + 1;
  }
  for (double rate : {0.5, 1.0, 4.0, 8.0}) {
    SCOPED_TRACE(rate);
    expect_relative(normal_expectation([&](double z) { return std::exp(rate * z); }),
                    std::exp(rate * rate / 2), 1e-10);
    EXPECT_NEAR(normal_expectation([&](double z) { return std::cos(rate * z); }),
                std::exp(-rate * rate / 2), 1e-11);
  }
  EXPECT_NEAR(normal_expectation([](double z) { return z * z * z; }), 0, 1e-12);
}

TEST(NormalExpectation, KinksAndStepsAnywhereToNineDigits) {
  for (double at : {-5.0, -1.7, -0.0625, 0.0, 1e-9, 0.3, 0.5, std::numbers::pi, 6.1}) {
    SCOPED_TRACE(at);
    double relu = normal_expectation([&](double z) { return z > at ? z - at : 0; });
    EXPECT_NEAR(relu, density(at) - at * upper_tail(at), 1e-9);
    double step = normal_expectation([&](double z) { return z > at ? 1.0 : 0.0; });
    EXPECT_NEAR(step, upper_tail(at), 1e-9);
  }
}

TEST(NormalExpectation, FastOscillationIsFollowedOrRefused) {
  auto squared_sine = [](double rate) {
    return normal_expectation([&](double z) { return std::pow(std::sin(rate * z), 2); });
  };
  EXPECT_NEAR(squared_sine(500), 0.5, 1e-8);
  EXPECT_THROW(squared_sine(1e7), Error);
}

TEST(NormalExpectation, IsInfiniteWhereItDoesNotExist) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double growth : {0.5, 0.6, 2.0}) {
    EXPECT_EQ(normal_expectation([&](double z) { return std::exp(growth * z * z); }), kInfinity);
  }
  for (double pole : {0.0, 0.3, -4.5, 1.2630703600000004}) {
    SCOPED_TRACE(pole);
    EXPECT_EQ(normal_expectation([&](double z) { return 1 / std::fabs(z - pole); }), kInfinity);
    EXPECT_EQ(normal_expectation([&](double z) { return std::pow(z - pole, -4); }), kInfinity);
  }
}

TEST(NormalExpectation, HeavyTailsAndPolesThatHaveOneAreFinite) {
  expect_relative(normal_expectation([](double z) { return std::exp(0.45 * z * z); }),
                  1 / std::sqrt(1 - 0.9), 1e-9);
  double gamma = std::tgamma(0.25) / (std::pow(2, 0.25) * std::sqrt(std::numbers::pi));
  expect_relative(normal_expectation([](double z) { return 1 / std::sqrt(std::fabs(z)); }), gamma,
                  1e-6);
  for (int i = 0; i < 100; ++i) {  // some of these poles are met exactly
    double pole = 1 + 0.001 * i;
    double mean = normal_expectation([&](double z) { return std::pow(std::fabs(z - pole), -0.5); });
    EXPECT_GT(mean, gamma / 2) << pole;
    EXPECT_LE(mean, gamma * (1 + 1e-6)) << pole;
  }
  EXPECT_NEAR(normal_expectation([](double z) { return std::log(std::fabs(z)); }),
              -(std::numbers::egamma + std::numbers::ln2) / 2, 1e-8);
}

TEST(NormalExpectation, IsNanWhereTheFunctionIsUnlessFarOut) {
  EXPECT_TRUE(std::isnan(normal_expectation([](double z) { return std::sqrt(z); })));
  EXPECT_NEAR(normal_expectation([](double z) { return std::fabs(z) > 13 ? NAN : 1; }), 1, 1e-11);
}

// The spike of a steep sigmoid's slope is narrower than any spacing of nodes: alone it may be
// missed, beside the sigmoid it must not be.
TEST(NormalExpectations, StepShowsWhereItsSlopeIs) {
  for (double at : {0.0, 0.3, -2.0}) {
    for (double steepness : {1e3, 1e6}) {
      auto [step, slope_squared, constant] = normal_expectations([&](double z) {
        double value = 1 / (1 + std::exp(-steepness * (z - at)));
        double slope = steepness * value * (1 - value);
        return std::array{value, slope * slope, 2.0};
      });
      EXPECT_NEAR(step, upper_tail(at), 1e-6);
      expect_relative(slope_squared, density(at) * steepness / 6, 1e-4);
      EXPECT_NEAR(constant, 2, 1e-10);
    }
  }
}

TEST(NormalExpectations, OneThatDoesNotExistLeavesTheOthers) {
  auto [inverse, square, none] = normal_expectations([](double z) {
    return std::array{1 / (z * z), z * z, std::nan("")};
  });
  EXPECT_TRUE(std::isinf(inverse));
  EXPECT_NEAR(square, 1, 1e-10);
  EXPECT_TRUE(std::isnan(none));
}

}  // namespace
}  // namespace sigma1
