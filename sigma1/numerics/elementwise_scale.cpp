#include "sigma1/numerics/elementwise_scale.h"

#include <array>
#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/numerics/gaussian.h"

namespace sigma1 {
namespace {

// What rounding leaves, as a share of a function's size, where its mean or its spread is zero.
constexpr double kMeanRounding = 1e-10, kSpreadRounding = 1e-12;

// Nearest to 0 that f, or its derivative, is not a number: what a person has to mend.
std::string where_nan(const ElementwiseFunction& f, double Dual::*part, double input_scale) {
  constexpr int kPerUnit = 64, kFarthest = 12;
  for (int step = 0; step <= kPerUnit * kFarthest; ++step) {
    for (int sign : {1, -1}) {
      double x = input_scale * sign * step / kPerUnit;
      if (std::isnan(f(x).*part)) return fmt::format(", as at x = {:.6g}", x);
    }
  }
  return "";
}

void check_second_moment(double moment, const ElementwiseFunction& f, double Dual::*part,
                         double input_scale) {
  if (std::isfinite(moment)) return;
  bool derivative = part == &Dual::derivative;
  if (std::isnan(moment)) {
    throw Error("{} is not a number everywhere under N(0, {:.6g}^2){}",
                derivative ? "the derivative" : "the function", input_scale,
                where_nan(f, part, input_scale));
  }
  throw Error("the second moment {}does not exist under N(0, {:.6g}^2), or no double holds it",
              derivative ? "of the derivative " : "", input_scale);
}

double reciprocal(double scale, const char* of_what) {
  double factor = 1 / scale;
  if (std::isfinite(factor)) return factor;
  throw Error("{} is zero in double precision, and no factor brings it to 1", of_what);
}

}  // namespace

Criterion parse_criterion(std::string_view name) {
  if (name == "std") return Criterion::std_dev;
  if (name == "rms") return Criterion::rms;
  throw Error("criterion: expected std or rms, got '{}'", name);
}

ElementwiseMoments elementwise_moments(const ElementwiseFunction& f, double input_scale) {
  if (!(input_scale > 0) || !std::isfinite(input_scale)) {
    throw Error("input scale: expected a positive finite number, got {}", input_scale);
  }
  auto [mean, square, derivative_square] = normal_expectations([&](double z) {
    auto [value, derivative] = f(input_scale * z);
    return std::array{value, value * value, derivative * derivative};
  });
  check_second_moment(square, f, &Dual::value, input_scale);
  check_second_moment(derivative_square, f, &Dual::derivative, input_scale);
  // Once more about the mean: E[f²] − E[f]² would lose a small spread beside a large mean.
  auto [offset, spread, size] = normal_expectations([&, center = mean](double z) {
    double value = f(input_scale * z).value;
    return std::array{value - center, (value - center) * (value - center), std::fabs(value)};
  });
  double rms = std::sqrt(square), std_dev = std::sqrt(std::fmax(spread - offset * offset, 0));
  return {std::fabs(mean) > kMeanRounding * size ? mean : 0,
          std_dev > kSpreadRounding * rms ? std_dev : 0, rms, std::sqrt(derivative_square)};
}

ElementwiseScale elementwise_scale(const ElementwiseMoments& moments, Criterion criterion) {
  bool rms = criterion == Criterion::rms;
  return {rms ? reciprocal(moments.rms, "the rms of the output")
              : reciprocal(moments.std_dev, "the standard deviation of the output"),
          reciprocal(moments.derivative_rms, "the derivative")};
}

ElementwiseScale elementwise_scale(const ElementwiseFunction& f, Criterion criterion,
                                   double input_scale) {
  return elementwise_scale(elementwise_moments(f, input_scale), criterion);
}

}  // namespace sigma1
