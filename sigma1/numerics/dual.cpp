#include "sigma1/numerics/dual.h"

#include <cmath>
#include <numbers>

namespace sigma1 {
namespace {

// Where the inside is flat, so is the outside, however steep: sqrt(relu(x)) below 0.
double chained(double slope, double inner) { return inner == 0 ? 0 : slope * inner; }

double cumulative(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// Each is written in the form that neither overflows nor cancels far from 0.
Dual relu(double x) { return {x <= 0 ? 0 : x, x > 0 ? 1.0 : 0.0}; }
Dual gelu(double x) { return {x * cumulative(x), cumulative(x) + x * density(x)}; }
Dual gelu_tanh(double x) {
  constexpr double kCubic = 0.044715;
  // (1 + tanh(u)) / 2 is the logistic function of 2u.
  double scale = std::sqrt(8 / std::numbers::pi);
  double gate = logistic(scale * x * (1 + kCubic * x * x));
  double gate_slope = gate * logistic(-scale * x * (1 + kCubic * x * x));
  return {x * gate, gate + chained(x * scale * (1 + 3 * kCubic * x * x), gate_slope)};
}
Dual tanh_of(double x) { return {std::tanh(x), std::pow(std::cosh(x), -2)}; }
Dual sigmoid(double x) { return {logistic(x), logistic(x) * logistic(-x)}; }
Dual silu(double x) { return {x * logistic(x), logistic(x) * (1 + x * logistic(-x))}; }
Dual softplus(double x) {
  return {(x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x))), logistic(x)};
}
Dual exp_of(double x) { return {std::exp(x), std::exp(x)}; }
Dual log_of(double x) { return {std::log(x), 1 / x}; }
Dual sqrt_of(double x) { return {std::sqrt(x), 0.5 / std::sqrt(x)}; }
Dual abs_of(double x) { return {std::fabs(x), x == 0 ? 0 : std::copysign(1.0, x)}; }
Dual erf_of(double x) { return {std::erf(x), 2 * std::numbers::inv_sqrtpi * std::exp(-x * x)}; }
Dual sin_of(double x) { return {std::sin(x), std::cos(x)}; }
Dual cos_of(double x) { return {std::cos(x), -std::sin(x)}; }
Dual larger(Dual a, Dual b) { return a.value >= b.value || std::isnan(a.value) ? a : b; }
Dual smaller(Dual a, Dual b) { return a.value <= b.value || std::isnan(a.value) ? a : b; }

}  // namespace

Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.derivative + b.derivative}; }
Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.derivative - b.derivative}; }
Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, chained(b.value, a.derivative) + chained(a.value, b.derivative)};
}
Dual operator/(Dual a, Dual b) {
  double value = a.value / b.value;
  return {value, (a.derivative - chained(value, b.derivative)) / b.value};
}
Dual pow(Dual a, Dual b) {
  double value = std::pow(a.value, b.value);
  double slope = b.value == 0 ? 0 : b.value * std::pow(a.value, b.value - 1);
  return {value, chained(slope, a.derivative) + chained(value * std::log(a.value), b.derivative)};
}

Dual apply(UnaryFunction f, Dual inner) {
  Dual outer = f(inner.value);
  return {outer.value, chained(outer.derivative, inner.derivative)};
}

std::span<const NamedFunction> elementwise_functions() {
  static const NamedFunction all[] = {
      {"relu", relu},  {"gelu", gelu},       {"gelu_tanh", gelu_tanh}, {"tanh", tanh_of},
      {"silu", silu},  {"sigmoid", sigmoid}, {"softplus", softplus},   {"exp", exp_of},
      {"log", log_of}, {"sqrt", sqrt_of},    {"abs", abs_of},          {"erf", erf_of},
      {"sin", sin_of}, {"cos", cos_of},      {"max", larger},          {"min", smaller}};
  return all;
}

}  // namespace sigma1
