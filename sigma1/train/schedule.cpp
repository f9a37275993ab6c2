#include "sigma1/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> all = {"constant", "half-life", "linear", "cosine"};
  return all;
}

double number_of(std::string_view setting, std::string_view value) {
  auto number = parse_number(value);
  if (!number || !std::isfinite(*number))
    throw Error("schedule: expected a number as {}, got '{}'", setting, value);
  return *number;
}

int64_t steps_of(std::string_view setting, std::string_view value) {
  constexpr double kMost = 0x1p53;
  double number = number_of(setting, value);
  if (number != std::floor(number) || std::fabs(number) > kMost)
    throw Error("schedule: expected a whole number as {}, got '{}'", setting, value);
  return static_cast<int64_t>(number);
}

void set(Schedule& schedule, std::string_view setting) {
  size_t at = setting.find('=');
  std::string_view name = setting.substr(0, at);
  std::string_view value = at == std::string_view::npos ? "" : setting.substr(at + 1);
  if (name == "warmup")
    schedule.warmup = steps_of(name, value);
  else if (name == "half_life")
    schedule.half_life = number_of(name, value);
  else if (name == "final")
    schedule.final_fraction = number_of(name, value);
  else
    throw Error("schedule: expected warmup, half_life or final, got '{}'", name);
}

}  // namespace

void check_schedule(const Schedule& s) {
  if (std::find(kinds().begin(), kinds().end(), s.kind) == kinds().end()) {
    std::string near = nearest_name(s.kind, kinds());
    throw Error("schedule: expected constant, half-life, linear or cosine, got '{}'{}", s.kind,
                near.empty() ? "" : fmt::format("; did you mean {}?", near));
  }
  if (!(s.rate > 0) || !std::isfinite(s.rate))
    throw Error("schedule: expected a rate above 0, got {}", s.rate);
  if (s.steps < 1) throw Error("schedule: expected at least one step, got {}", s.steps);
  if (s.warmup < 0 || s.warmup > s.steps)
    throw Error("schedule: expected a warmup of 0 to {} steps, got {}", s.steps, s.warmup);
  if (!(s.half_life >= 0) || !std::isfinite(s.half_life))
    throw Error("schedule: expected a half_life above 0, got {}", s.half_life);
  if (!(s.final_fraction >= 0 && s.final_fraction <= 1))
    throw Error("schedule: expected a final fraction of 0 to 1, got {}", s.final_fraction);
  if (s.half_life != 0 && s.kind != "half-life")
    throw Error("schedule: half_life is of half-life alone, not of {}", s.kind);
  if (s.final_fraction != 0 && s.kind != "linear" && s.kind != "cosine")
    throw Error("schedule: a final fraction is of linear and cosine alone, not of {}", s.kind);
}

Schedule parse_schedule(std::string_view text, double rate, int64_t steps) {
  size_t colon = text.find(':');
  Schedule schedule{.kind = std::string(text.substr(0, colon)), .rate = rate, .steps = steps};
  if (colon != std::string_view::npos)
    for (const std::string& setting : split(text.substr(colon + 1), ',')) set(schedule, setting);
  check_schedule(schedule);
  return schedule;
}

double rate_at(const Schedule& s, int64_t step) {
  if (step < s.warmup)
    return s.rate * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  auto since = static_cast<double>(step - s.warmup);
  if (s.kind == "constant") return s.rate;
  if (s.kind == "half-life") {
    double half_life = s.half_life != 0 ? s.half_life : static_cast<double>(s.steps) / 8;
    return s.rate * std::exp2(-since / half_life);
  }
  double length = static_cast<double>(s.steps - s.warmup);
  double p = since < length ? since / length : 1;
  double left = s.kind == "linear" ? 1 - p : (1 + std::cos(std::numbers::pi * p)) / 2;
  return s.rate * (s.final_fraction + (1 - s.final_fraction) * left);
}

}  // namespace sigma1
