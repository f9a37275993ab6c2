#include "sigma1/passes/precision.h"

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

Cast cast_of(std::string_view format, bool saturates) {
  FloatFormat found = find_format(format).format;
  bool infinity = !saturates && found.has_infinity();
  return {found, Rounding::nearest_even, infinity ? Overflow::infinity : Overflow::saturate};
}

// A backward node is named after the forward one it belongs to.
std::string_view forward_name(std::string_view node_name) {
  constexpr std::string_view kBackward = "grad/";
  return node_name.starts_with(kBackward) ? node_name.substr(kBackward.size()) : node_name;
}

}  // namespace

Precision Precision::named(std::string_view name) {
  Precision precision;
  if (name == "fp32") return precision;
  if (name == "bf16" || name == "fp16") {
    std::string format(name);
    precision.activations = precision.weights = precision.gradients = precision.moment = format;
    precision.stochastic_weights = true;
    return precision;
  }
  if (name == "fp8") {
    precision = named("fp16");
    precision.matmul = "fp8";
    precision.overrides = {{"head", "stored"}, {"mlm/scores", "stored"}};
    return precision;
  }
  throw Error("precision: expected fp32, bf16, fp16 or fp8, got '{}'", name);
}

void check_formats(const Precision& precision) {
  for (const std::string* format :
       {&precision.activations, &precision.weights, &precision.gradients, &precision.moment,
        &precision.second_moment}) {
    find_format(*format);
  }
  auto check_product = [](const std::string& format) {
    if (format != "stored" && format != "fp8") find_format(format);
  };
  check_product(precision.matmul);
  for (const Precision::Override& each : precision.overrides) check_product(each.format);
}

bool Precision::Override::names(std::string_view node_name) const {
  // What lies below a node, or is its backward, goes with it.
  std::string_view name = forward_name(node_name);
  return matches_pattern(name, pattern) || matches_pattern(name, pattern + "/*");
}

const std::string& Precision::matmul_format(std::string_view node_name) const {
  const std::string* format = &matmul;
  for (const Override& each : overrides) {
    if (each.names(node_name)) format = &each.format;
  }
  return *format;
}

Cast storage_cast(std::string_view format) { return cast_of(format, false); }
Cast product_cast(std::string_view format) { return cast_of(format, true); }

}  // namespace sigma1
