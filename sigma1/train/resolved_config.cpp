// What settings amount to: formats, schedule, scaling and the method that a text names.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {
namespace {

// Formats are looked up here, so that a mistake is told with its key.
void expect_format(std::string_view key, const std::string& format) {
  bool is_product = key.starts_with("matmul");
  if (is_product && (format == "stored" || format == "fp8")) return;
  try {
    find_format(format);
  } catch (const Error& error) {
    throw Error("{}: {}", key, error.what());
  }
}

// What worked in the paper's sweeps and ours, for the optimiser's kind and the method.
double default_rate(bool unit, bool u_mup, std::string_view optimiser) {
  if (u_mup) return 0x1p-1;
  if (optimiser == "sgd") return unit ? 0x1p-12 : 0x1p-4;
  return unit ? 0x1p-5 : 0x1p-9;
}

}  // namespace

Precision TrainConfig::resolved_precision() const {
  Precision result = Precision::named(precision);
  using Override = std::tuple<const char*, const std::string*, std::string*>;
  for (auto [key, from, to] : {Override{"activations", &activations, &result.activations},
                               {"weights", &weights, &result.weights},
                               {"gradients", &gradients, &result.gradients},
                               {"moment", &moment, &result.moment},
                               {"matmul", &matmul, &result.matmul}}) {
    if (from->empty()) continue;
    expect_format(key, *from);
    *to = *from;
  }
  for (const std::string& entry : split(matmul_overrides, ',')) {
    if (entry.empty()) continue;
    std::vector<std::string> parts = split(entry, '=');
    if (parts.size() != 2) throw Error("matmul-overrides: expected NAME=FORMAT, got '{}'", entry);
    expect_format("matmul-overrides", parts[1]);
    result.overrides.push_back({parts[0], parts[1]});
  }
  if (!weight_rounding.empty()) result.stochastic_weights = weight_rounding == "stochastic";
  result.master_weights = master_weights;
  result.scaling = Method::parse(method).scaling;
  check_formats(result);
  return result;
}

Schedule TrainConfig::resolved_schedule() const {
  bool unit = Method::parse(method).kind == Method::Kind::unit;
  Schedule result;
  result.kind = schedule;
  result.rate = rate > 0 ? rate : default_rate(unit, size.is_u_mup(), optimiser);
  result.warmup = warmup;
  result.steps = steps;
  if (schedule == "half-life" && half_life > 0) result.half_life = static_cast<double>(half_life);
  return result;
}

int64_t TrainConfig::interval(int64_t asked) const {
  return asked > 0 ? asked : std::max<int64_t>(1, steps / 8);
}

ScalingOptions TrainConfig::scaling() const {
  ScalingOptions options = ScalingOptions::of(parse_scheme(scheme));
  options.gradient_repeats = parts();
  // What a layer gives is u-µP's business, at every width; its gradients follow.
  if (is_u_mup()) options.mean = Mean::to_output;
  return options;
}

std::string TrainConfig::resolved_align() const {
  if (align != "default") return align;
  return reads_pairs() || reads_questions() ? "function" : "measure";
}

Method Method::parse(std::string_view text) {
  if (text == "none") return {};
  if (text == "unit") return {.kind = Kind::unit};
  if (text == "auto-loss-scale") return {.kind = Kind::auto_loss_scale};
  if (text == "per-tensor=current") {
    return {.kind = Kind::per_tensor, .scaling = CastScaling::current};
  }
  if (text == "per-tensor=delayed") {
    return {.kind = Kind::per_tensor, .scaling = CastScaling::delayed};
  }
  constexpr std::string_view kLossScale = "loss-scale=";
  if (text.starts_with(kLossScale)) {
    std::optional<double> scale = parse_number(text.substr(kLossScale.size()));
    if (scale && *scale > 0 && std::isfinite(*scale)) {
      return {.kind = Kind::loss_scale, .loss_scale = *scale};
    }
  }
  throw Error(
      "method: expected none, loss-scale=N, auto-loss-scale, per-tensor=current, "
      "per-tensor=delayed or unit, got '{}'",
      text);
}

}  // namespace sigma1
