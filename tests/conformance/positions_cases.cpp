#include <cmath>

#include "sigma1/ops/positions.h"
#include "tests/conformance/case.h"

namespace sigma1 {

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
  return {{"pairs", &sinusoids_op, {}, attributes(7, 6), expected, {}, attributes(4096, 128)}};
}

}  // namespace sigma1
