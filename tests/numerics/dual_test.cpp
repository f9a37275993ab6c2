#include "sigma1/numerics/dual.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numbers>

namespace sigma1 {
namespace {

// Four points, so that the difference is good to ten digits and any wrong derivative shows.
double slope_of(const std::function<double(double)>& f, double x) {
  constexpr double kStep = 0x1p-10;
  return (8 * (f(x + kStep) - f(x - kStep)) - (f(x + 2 * kStep) - f(x - 2 * kStep))) / (12 * kStep);
}

void expect_derivative(const std::function<Dual(double)>& f, double x) {
  double expected = slope_of([&](double at) { return f(at).value; }, x);
  EXPECT_NEAR(f(x).derivative, expected, 1e-8 * (1 + std::fabs(expected))) << "at " << x;
}

TEST(ElementwiseFunctions, DerivativesAreThoseOfTheValues) {
  for (const auto& [name, function] : elementwise_functions()) {
    SCOPED_TRACE(name);
    for (double x : {-3.1, -1.3, -0.2, 0.2, 0.7, 1.9, 4.2}) {
      if (x < 0 && (name == "log" || name == "sqrt")) continue;
      if (const auto* unary = std::get_if<UnaryFunction>(&function)) {
        expect_derivative(*unary, x);
        continue;
      }
      auto binary = std::get<BinaryFunction>(function);
      expect_derivative([&](double at) { return binary({at, 1}, {0.5 * at * at, at}); }, x);
      expect_derivative([&](double at) { return binary({0.5 * at * at, at}, {at, 1}); }, x);
    }
  }
}

TEST(ElementwiseFunctions, ValuesAreTheDefinitions) {
  using std::exp, std::erf, std::sqrt, std::numbers::pi;
  const std::map<std::string, std::function<double(double)>> definitions{
      {"relu", [](double x) { return x > 0 ? x : 0; }},
      {"gelu", [](double x) { return x * (1 + erf(x / sqrt(2))) / 2; }},
      {"gelu_tanh",
       [](double x) { return x / 2 * (1 + std::tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))); }},
      {"tanh", [](double x) { return (exp(x) - exp(-x)) / (exp(x) + exp(-x)); }},
      {"silu", [](double x) { return x / (1 + exp(-x)); }},
      {"sigmoid", [](double x) { return 1 / (1 + exp(-x)); }},
      {"softplus", [](double x) { return std::log(1 + exp(x)); }},
      {"exp", [](double x) { return std::pow(std::numbers::e, x); }},
      {"log", [](double x) { return std::log2(x) * std::numbers::ln2; }},
      {"sqrt", [](double x) { return std::pow(x, 0.5); }},
      {"abs", [](double x) { return x < 0 ? -x : x; }},
      {"erf", [](double x) { return 1 - std::erfc(x); }},
      {"sin", [](double x) { return std::cos(x - pi / 2); }},
      {"cos", [](double x) { return std::sin(x + pi / 2); }}};
  for (const auto& [name, function] : elementwise_functions()) {
    SCOPED_TRACE(name);
    const auto* unary = std::get_if<UnaryFunction>(&function);
    if (unary == nullptr) continue;
    for (double x : {-2.5, -0.3, 0.3, 1.0, 3.7}) {
      if (x < 0 && (name == "log" || name == "sqrt")) continue;
      EXPECT_NEAR((*unary)(x).value, definitions.at(name)(x), 1e-13) << x;
    }
  }
}

TEST(ElementwiseFunctions, StayFiniteFarOut) {
  for (const auto& [name, function] : elementwise_functions()) {
    const auto* unary = std::get_if<UnaryFunction>(&function);
    if (unary == nullptr || name == "exp") continue;
    for (double x : {-1e5, -800.0, 800.0, 1e5}) {
      if (x < 0 && (name == "log" || name == "sqrt")) continue;
      EXPECT_TRUE(std::isfinite((*unary)(x).value)) << name << " at " << x;
      EXPECT_TRUE(std::isfinite((*unary)(x).derivative)) << name << " at " << x;
    }
  }
}

TEST(ElementwiseFunctions, NanIsNotHidden) {
  for (const auto& [name, function] : elementwise_functions()) {
    SCOPED_TRACE(name);
    if (const auto* unary = std::get_if<UnaryFunction>(&function)) {
      EXPECT_TRUE(std::isnan((*unary)(NAN).value));
      continue;
    }
    auto binary = std::get<BinaryFunction>(function);
    EXPECT_TRUE(std::isnan(binary({NAN, 1}, {1, 1}).value));
    EXPECT_TRUE(std::isnan(binary({1, 1}, {NAN, 1}).value));
  }
}

TEST(Dual, OperatorsFollowTheRulesOfDerivatives) {
  auto u = [](double x) { return Dual{std::sin(x) + 2, std::cos(x)}; };
  auto v = [](double x) { return Dual{x * x + 1, 2 * x}; };
  for (double x : {-1.4, -0.5, 0.3, 2.2}) {
    expect_derivative([&](double at) { return u(at) + v(at); }, x);
    expect_derivative([&](double at) { return u(at) - v(at); }, x);
    expect_derivative([&](double at) { return u(at) * v(at); }, x);
    expect_derivative([&](double at) { return u(at) / v(at); }, x);
    expect_derivative([&](double at) { return pow(u(at), v(at)); }, x);
    expect_derivative([&](double at) { return pow({at, 1}, {3, 0}); }, x);
  }
  Dual quotient = Dual{6, 1} / Dual{3, 0};
  EXPECT_EQ(quotient.value, 2);
  EXPECT_EQ((Dual{6, 1} - Dual{3, 0}).value, 3);
}

TEST(Dual, FlatInsideIsFlatOutside) {
  Dual flat{0, 0};
  auto root = [](double x) { return Dual{std::sqrt(x), 0.5 / std::sqrt(x)}; };
  EXPECT_EQ(apply(root, flat).derivative, 0);
  EXPECT_EQ(pow(flat, {0.5, 0}).derivative, 0);
  EXPECT_EQ(pow({0, 1}, {0, 0}).derivative, 0);
  EXPECT_EQ(pow({-2, 1}, {2, 0}).derivative, -4);
}

}  // namespace
}  // namespace sigma1
