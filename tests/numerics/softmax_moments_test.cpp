#include "sigma1/numerics/softmax_moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sigma1/base/error.h"
#include "sigma1/base/rng.h"

namespace sigma1 {
namespace {

void expect_near(const SoftmaxMoments& got, const SoftmaxMoments& want, double relative) {
  EXPECT_NEAR(got.p2, want.p2, relative * want.p2);
  EXPECT_NEAR(got.p3, want.p3, relative * want.p3);
  EXPECT_NEAR(got.p2_squared, want.p2_squared, relative * want.p2_squared);
  EXPECT_NEAR(got.radial, want.radial, relative * want.radial);
}

void accumulate(SoftmaxMoments& sum, const SoftmaxMoments& term, double weight) {
  sum.p2 += weight * term.p2;
  sum.p3 += weight * term.p3;
  sum.p2_squared += weight * term.p2_squared;
  sum.radial += weight * term.radial;
}

// What is averaged, for one row.
SoftmaxMoments of_row(const std::vector<double>& x, double s) {
  double normaliser = 0, mean = 0, p2 = 0, p3 = 0, radial = 0;
  for (double each : x) normaliser += std::exp(s * each);
  for (double each : x) mean += std::exp(s * each) / normaliser * each;
  for (double each : x) {
    double p = std::exp(s * each) / normaliser;
    p2 += p * p;
    p3 += p * p * p;
    radial += p * p * (each - mean) * (each - mean);
  }
  return {p2, p3, p2 * p2, radial};
}

// The definition by brute force: a midpoint rule over the whole space of three logits.
SoftmaxMoments of_three(double s) {
  constexpr int kSteps = 100;
  constexpr double kRange = 6.5;
  SoftmaxMoments sum{};
  double total = 0;
  auto place = [](int i) { return kRange * (2 * (i + 0.5) / kSteps - 1); };
  for (int i = 0; i < kSteps; ++i) {
    for (int j = 0; j < kSteps; ++j) {
      for (int k = 0; k < kSteps; ++k) {
        std::vector<double> x{place(i), place(j), place(k)};
        double weight = std::exp(-(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]) / 2);
        accumulate(sum, of_row(x, s), weight);
        total += weight;
      }
    }
  }
  SoftmaxMoments mean{};
  accumulate(mean, sum, 1 / total);
  return mean;
}

TEST(SoftmaxMoments, EqualTheDefinitionForThreeLogits) {
  for (double s : {0.1, 1.0, 4.0}) expect_near(softmax_moments(3, s), of_three(s), 1e-5);
}

// Of two logits only the difference √2·z matters: one integral, and p₁·p₂ is the logistic density.
TEST(SoftmaxMoments, EqualTheDefinitionForTwoLogits) {
  constexpr int kSteps = 20'000;
  constexpr double kRange = 9;
  for (double s : {0.1, 0.5, 2.0, 4.0, 8.0, 30.0}) {
    SoftmaxMoments want{};
    double total = 0;
    for (int i = 0; i < kSteps; ++i) {
      double z = kRange * (2 * (i + 0.5) / kSteps - 1), weight = std::exp(-z * z / 2);
      double product = 0.25 / std::pow(std::cosh(s * z / std::sqrt(2)), 2), p2 = 1 - 2 * product;
      accumulate(want, {p2, 1 - 3 * product, p2 * p2, 4 * product * product * z * z}, weight);
      total += weight;
    }
    SoftmaxMoments mean{};
    accumulate(mean, want, 1 / total);
    expect_near(softmax_moments(2, s), mean, 1e-6);
  }
}

TEST(SoftmaxMoments, OneLogitIsCertain) {
  for (double s : {0.0, 0.1, 4.0, 100.0}) {
    SoftmaxMoments moments = softmax_moments(1, s);
    EXPECT_NEAR(moments.p2, 1, 1e-6);
    EXPECT_NEAR(moments.p3, 1, 1e-6);
    EXPECT_NEAR(moments.jacobian(), 0, 1e-6);
    EXPECT_NEAR(moments.radial, 0, 1e-6);
  }
}

TEST(SoftmaxMoments, EqualLogitsAreUniform) {
  for (int64_t n : {2, 30, 100'000}) {
    double u = 1 / static_cast<double>(n);
    expect_near(softmax_moments(n, 0), {u, u * u, u * u, u * (1 - u)}, 1e-6);
  }
}

// n·p is log-normal when the normaliser no longer fluctuates, and J·x is p·(x − s).
TEST(SoftmaxMoments, ManyLogitsAreLogNormal) {
  constexpr double n = 100'000, s = 0.5, v = s * s;
  double p2 = std::exp(v) / n, p3 = std::exp(3 * v) / (n * n);
  expect_near(softmax_moments(100'000, s), {p2, p3, p2 * p2, p2 * (1 + v)}, 1e-4);
}

// Where no formula reaches: steep logits, neither few nor many.
TEST(SoftmaxMoments, AgreeWithSampling) {
  constexpr int kRows = 20'000;
  constexpr uint64_t kLogits = 40;
  RandomStream random(1, "logits");
  for (double s : {1.0, 4.0}) {
    SoftmaxMoments mean{};
    for (uint64_t row = 0; row < kRows; ++row) {
      std::vector<double> x;
      for (uint64_t i = 0; i < kLogits; ++i) x.push_back(random.normal(row * kLogits + i));
      accumulate(mean, of_row(x, s), 1.0 / kRows);
    }
    expect_near(softmax_moments(kLogits, s), mean, 0.03);
  }
}

TEST(SoftmaxMoments, CausalIsTheMeanOverRows) {
  constexpr int64_t n = 200;
  for (double s : {0.1, 1.0, 4.0}) {
    SoftmaxMoments mean{};
    for (int64_t i = 1; i <= n; ++i) accumulate(mean, softmax_moments(i, s), 1.0 / n);
    expect_near(causal_softmax_moments(n, s), mean, 1e-6);
  }
}

// Uniform rows give the harmonic number.
TEST(SoftmaxMoments, CausalIsExactForLongRows) {
  constexpr int64_t n = 100'000;
  double harmonic = 0;
  for (int64_t i = 1; i <= n; ++i) harmonic += 1 / static_cast<double>(i);
  EXPECT_NEAR(causal_softmax_moments(n, 0).p2 * n, harmonic, 1e-6 * harmonic);
}

TEST(SoftmaxMoments, RefusesWhatHasNone) {
  EXPECT_THROW(softmax_moments(0, 1), Error);
  EXPECT_THROW(softmax_moments(5, -1), Error);
  EXPECT_THROW(softmax_moments(5, NAN), Error);
  EXPECT_THROW(causal_softmax_moments(5, 1e4), Error);
}

}  // namespace
}  // namespace sigma1
