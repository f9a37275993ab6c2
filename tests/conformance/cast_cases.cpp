#include "sigma1/ops/cast.h"

#include <algorithm>
#include <cmath>

#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

struct EightBits {
  const char* name;
  double largest, smallest_normal;
  int mantissa_bits;
};
constexpr EightBits kFormats[] = {{"e4m3", 448, 0x1p-6, 3}, {"e5m2", 57344, 0x1p-14, 2}};

double largest_magnitude(const Tensor& x) {
  double largest = 0;
  for (double each : x.data) largest = std::max(largest, std::fabs(each));
  return largest;
}

// To the nearest multiple of the last place's unit, which is the smallest normal number's below it.
double rounded(double x, const EightBits& format) {
  double magnitude = std::max(std::fabs(x), format.smallest_normal);
  double unit = std::ldexp(1.0, std::ilogb(magnitude) - format.mantissa_bits);
  return std::clamp(std::nearbyint(x / unit) * unit, -format.largest, format.largest);
}

// In fp32 where the op is: a scale is a number that is stored.
Tensor cast_at(const Tensor& x, double largest, const EightBits& format) {
  Tensor y(x.shape);
  auto scale = static_cast<float>(format.largest) / static_cast<float>(largest);
  for (int64_t i = 0; i < x.count(); ++i) {
    float scaled = static_cast<float>(x[i]) * scale;
    y[i] = rounded(scaled, format) * (1.0f / scale);
  }
  return y;
}

}  // namespace

std::vector<ConformanceCase> cast_cases() {
  std::vector<ConformanceCase> cases;
  for (const EightBits& format : kFormats) {
    Attributes attributes{{"format", std::string(format.name)}};
    cases.push_back({std::string(format.name) + " current",
                     &scaled_cast_op,
                     {{{5, 7}}},
                     attributes,
                     [&format](const std::vector<Tensor>& in) {
                       return std::vector{cast_at(in[0], largest_magnitude(in[0]), format)};
                     },
                     {{{300, 130}}},
                     attributes});
    cases.push_back({std::string(format.name) + " delayed",
                     &scaled_cast_op,
                     {{{5, 7}}, {{kAmaxHistory}}},
                     attributes,
                     [&format](const std::vector<Tensor>& in) {
                       Tensor next({kAmaxHistory});
                       next[0] = static_cast<float>(largest_magnitude(in[0]));
                       for (int64_t i = 1; i < kAmaxHistory; ++i) next[i] = in[1][i - 1];
                       return std::vector{cast_at(in[0], largest_magnitude(in[1]), format), next};
                     },
                     {{{300, 130}}, {{kAmaxHistory}}},
                     attributes});
  }
  return cases;
}

}  // namespace sigma1
