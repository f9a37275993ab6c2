#include <cmath>
#include <complex>

#include "sigma1/ops/positions.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

Attributes turned(int64_t heads, double base, bool inverse) {
  return {{"heads", heads}, {"base", base}, {"inverse", inverse}};
}

// A pair is a complex number, and position t multiplies it by the t-th power of a root of one.
// Heads of four: pairs 0 and 1 with the frequencies 1 and base^-½.
std::vector<Tensor> as_complex_numbers(const std::vector<Tensor>& in, double base, bool inverse) {
  Tensor y(in[0].shape);
  int64_t width = in[0].dim(2);
  for (int64_t row = 0; row < in[0].count() / width; ++row) {
    for (int64_t head = 0; head < width; head += 4) {
      for (int64_t j : {0, 1}) {
        double frequency = j == 0 ? 1 : 1 / std::sqrt(base);
        std::complex<double> root = std::polar(1.0, inverse ? -frequency : frequency);
        int64_t at = row * width + head + j;
        std::complex<double> pair{in[0][at], in[0][at + 2]};
        pair *= std::pow(root, static_cast<int>(row % in[0].dim(1)));
        y[at] = pair.real();
        y[at + 2] = pair.imag();
      }
    }
  }
  return {y};
}

// So many positions that angles in fp32 would be off in the fourth digit.
std::vector<ConformanceCase> rotary_cases() {
  std::vector<ConformanceCase> cases;
  for (bool inverse : {false, true}) {
    auto expected = [inverse](const std::vector<Tensor>& in) {
      return as_complex_numbers(in, 100, inverse);
    };
    cases.push_back({inverse ? "turned back" : "turned",
                     &rotary_op,
                     {{{2, 5, 12}}},
                     turned(3, 100, inverse),
                     expected,
                     {{{1, 8192, 24}}},
                     turned(4, 10000, inverse)});
  }
  return cases;
}

}  // namespace

std::vector<ConformanceCase> positions_cases() {
  auto attributes = [](int64_t length, int64_t components) {
    return Attributes{{"length", length}, {"components", components}, {"longest", 1024.0}};
  };
  // Pairs of sine and cosine with periods 2 … 1024, written as periods.
  auto expected = [](const std::vector<Tensor>&) {
    Tensor y({7, 6});
    for (int64_t t = 0; t < 7; ++t) {
      for (int64_t pair = 0; pair < 3; ++pair) {
        double period = 2 * std::pow(512.0, static_cast<double>(pair) / 2);
        double angle = 2 * M_PI * static_cast<double>(t) / period;
        y[t * 6 + 2 * pair] = std::sin(angle);
        y[t * 6 + 2 * pair + 1] = std::cos(angle);
      }
    }
    return std::vector<Tensor>{y};
  };
  std::vector<ConformanceCase> cases = rotary_cases();
  cases.push_back(
      {"pairs", &sinusoids_op, {}, attributes(7, 6), expected, {}, attributes(4096, 128)});
  return cases;
}

}  // namespace sigma1
