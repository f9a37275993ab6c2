#include "sigma1/report/diagnosis_words.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "sigma1/base/error.h"

namespace sigma1 {

std::string power_of_two(double value) {
  if (value == 0) return "0";
  if (!(value > 0) || std::isinf(value)) return fmt::format("{}", value);
  double exponent = std::round(10 * std::log2(value)) / 10;
  return fmt::format("2^{}", exponent + 0.0);  // no "-0"
}

std::string counted(int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string percent_digits(double share) {
  double value = 100 * share;
  return std::fabs(value) < 10 ? fmt::format("{:.2g}", value) : fmt::format("{:.0f}", value);
}

std::string percent(double share) { return percent_digits(share) + " %"; }

std::string role_words(TensorRole role, int64_t count) {
  switch (role) {
    case TensorRole::activation:
      return counted(count, "activation");
    case TensorRole::weight:
      return counted(count, "weight");
    case TensorRole::gradx:
      return counted(count, "activation gradient");
    case TensorRole::gradw:
      return counted(count, "weight gradient");
  }
  throw Bug("unknown role of a tensor");
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::toupper(c); });
  return result;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string result;
  for (size_t i = 0; i < parts.size(); ++i) {
    bool last = i + 1 == parts.size();
    result += (i == 0 ? "" : last ? " and " : ", ") + parts[i];
  }
  return result;
}

std::string method_title(std::string_view method) {
  constexpr std::string_view kLossScale = "loss-scale=";
  if (method == "none") return "Regular training";
  if (method == "unit") return "Unit scaling";
  if (method == "auto-loss-scale") return "Automatic loss scaling";
  if (method.starts_with(kLossScale)) {
    return fmt::format("Loss scaling by {}", method.substr(kLossScale.size()));
  }
  return fmt::format("Method {}", method);
}

}  // namespace sigma1
