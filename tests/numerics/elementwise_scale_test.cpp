#include "sigma1/numerics/elementwise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "sigma1/base/error.h"
#include "sigma1/numerics/expression.h"

namespace sigma1 {
namespace {

using std::numbers::pi;

ElementwiseScale scale_of(const std::string& text, Criterion criterion = Criterion::std_dev,
                          double input_scale = 1) {
  return elementwise_scale(parse_expression(text), criterion, input_scale);
}

std::string complaint_about(const std::string& text, Criterion criterion = Criterion::std_dev,
                            double input_scale = 1) {
  try {
    scale_of(text, criterion, input_scale);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no complaint about '" << text << "'";
  return "";
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' does not say '" << part << "'";
}

// The paper's own are empirical, hence its tolerance.
TEST(ElementwiseScale, IsThePapers) {
  struct Case {
    const char* function;
    double alpha, beta;
  };
  const Case cases[] = {{"gelu", 1.701, 1.481},     {"tanh", 1.593, 1.467},
                        {"sigmoid", 4.802, 4.722},  {"silu", 1.7872, 1.6233},
                        {"softplus", 1.919, 1.846}, {"relu", 1.7129, 1.4142}};
  for (const auto& [function, alpha, beta] : cases) {
    ElementwiseScale scale = scale_of(function);
    EXPECT_NEAR(scale.alpha, alpha, 1e-3) << function;
    EXPECT_NEAR(scale.beta, beta, 1e-3) << function;
  }
}

TEST(ElementwiseScale, HasClosedFormsToNineDigits) {
  ElementwiseScale relu = scale_of("relu");
  EXPECT_NEAR(relu.alpha, std::sqrt(2 / (1 - 1 / pi)), 1e-9);
  EXPECT_NEAR(relu.beta, std::sqrt(2), 1e-9);
  EXPECT_NEAR(scale_of("relu", Criterion::rms).alpha, std::sqrt(2), 1e-9);
  EXPECT_NEAR(scale_of("relu", Criterion::rms).beta, std::sqrt(2), 1e-9);

  ElementwiseScale square = scale_of("x^2", Criterion::std_dev, 3);
  EXPECT_NEAR(square.alpha, 1 / (9 * std::sqrt(2)), 1e-10);
  EXPECT_NEAR(square.beta, 1.0 / 6, 1e-10);
  EXPECT_NEAR(scale_of("x^2", Criterion::rms, 3).alpha, 1 / (9 * std::sqrt(3)), 1e-10);

  ElementwiseScale exponential = scale_of("exp(x)", Criterion::std_dev, 0.5);
  double variance = 0.25;
  EXPECT_NEAR(exponential.alpha, 1 / std::sqrt(std::exp(variance) * (std::exp(variance) - 1)),
              1e-9);
  EXPECT_NEAR(exponential.beta, std::exp(-variance), 1e-9);

  double above = std::erfc(0.3 / std::numbers::sqrt2) / 2;
  EXPECT_NEAR(scale_of("relu(x-0.3)").beta, 1 / std::sqrt(above), 1e-9);
}

TEST(ElementwiseScale, MomentsAreThoseOfTheOutput) {
  ElementwiseMoments moments = elementwise_moments(parse_expression("3 + 2*x"), 5);
  EXPECT_NEAR(moments.mean, 3, 1e-9);
  EXPECT_NEAR(moments.std_dev, 10, 1e-9);
  EXPECT_NEAR(moments.rms, std::sqrt(109), 1e-9);
  EXPECT_NEAR(moments.derivative_rms, 2, 1e-9);
  EXPECT_EQ(elementwise_moments(parse_expression("tanh")).mean, 0);
  EXPECT_NEAR(elementwise_moments(parse_expression("1e6 + x")).std_dev, 1, 1e-6);
  double mean = elementwise_moments(parse_expression("exp(10*x)")).mean;
  EXPECT_NEAR(mean / std::exp(50), 1, 1e-6);
}

// At a large scale a sigmoid is a step; its gradient's scale is that of a narrow spike.
TEST(ElementwiseScale, ExtremeInputScales) {
  ElementwiseScale step = scale_of("sigmoid", Criterion::std_dev, 1e6);
  EXPECT_NEAR(step.alpha, 2, 1e-5);
  EXPECT_NEAR(step.beta, std::sqrt(6e6 * std::sqrt(2 * pi)), 1);
  ElementwiseScale line = scale_of("tanh", Criterion::std_dev, 1e-6);
  EXPECT_NEAR(line.alpha, 1e6, 1);
  EXPECT_NEAR(line.beta, 1, 1e-9);
}

TEST(ElementwiseScale, TakesAnyFunction) {
  ElementwiseScale scale = elementwise_scale(
      [](double x) {
        return Dual{4 * x, 4};
      },
      Criterion::std_dev);
  EXPECT_NEAR(scale.alpha, 0.25, 1e-10);
  EXPECT_NEAR(scale.beta, 0.25, 1e-10);
}

TEST(ElementwiseScale, MomentThatDoesNotExist) {
  for (const char* text : {"exp(x^2)", "exp(x^2/4)", "x*exp(x^2)", "1/x", "sin(x)/cos(x)"}) {
    expect_contains(complaint_about(text), "the second moment does not exist under N(0, 1^2)");
  }
  expect_contains(complaint_about("exp(x^2/16)", Criterion::rms, 2), "N(0, 2^2)");
  EXPECT_NO_THROW(scale_of("exp(x^2/16)"));
  for (const char* text : {"log(abs(x))", "sqrt(abs(x-0.3))"}) {
    expect_contains(complaint_about(text), "the second moment of the derivative does not exist");
  }
}

TEST(ElementwiseScale, NotANumber) {
  expect_contains(complaint_about("log(x)"), "the function is not a number");
  expect_contains(complaint_about("log(x)"), "as at x = -0.015625");
  expect_contains(complaint_about("sqrt(4-x)", Criterion::rms, 2), "as at x = 4.03125");
  expect_contains(complaint_about("x/(1+exp(-x))", Criterion::rms, 300),
                  "the derivative is not a number");
}

TEST(ElementwiseScale, Zero) {
  for (const char* text : {"3", "0", "1/3", "5.55", "1e8", "x-x"}) {
    expect_contains(complaint_about(text), "standard deviation of the output is zero");
  }
  expect_contains(complaint_about("0", Criterion::rms), "rms of the output is zero");
  expect_contains(complaint_about("3", Criterion::rms), "the derivative is zero");
  expect_contains(complaint_about("x/abs(x)"), "the derivative is zero");
}

TEST(ElementwiseScale, InputScaleMustBePositive) {
  for (double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_contains(complaint_about("x", Criterion::rms, bad), "input scale: expected a positive");
  }
}

TEST(Criterion, IsReadByName) {
  EXPECT_EQ(parse_criterion("std"), Criterion::std_dev);
  EXPECT_EQ(parse_criterion("rms"), Criterion::rms);
  EXPECT_THROW(parse_criterion("mean"), Error);
}

}  // namespace
}  // namespace sigma1
