// Ticks are chosen by what fits: as many round numbers as their labels leave room for, whatever the
// span of the axis, so that no caller has to set them by hand.
#include "sigma1/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sigma1/base/error.h"

namespace sigma1 {

double AxisScale::at(double value) const {
  double low = transform(axis_.min), high = transform(axis_.max);
  return from_ + (to_ - from_) * ((transform(value) - low) / (high - low));
}

double AxisScale::transform(double value) const {
  if (axis_.base == 0) return value;
  if (!(value > 0)) return NAN;
  return axis_.base == 2 ? std::log2(value) : std::log10(value);
}

bool AxisScale::shows(double value) const { return value >= axis_.min && value <= axis_.max; }

double AxisScale::pixels() const { return std::abs(to_ - from_); }

double AxisScale::room_for(const Text& label) const {
  return from_ > to_ ? 2 * kTickFont : text_width(label, kTickFont) + kTickFont;
}

namespace {

std::string signed_text(std::string digits) {
  return digits.front() == '-' ? "\u2212" + digits.substr(1) : digits;
}

// 1, 2, 5, 10, 20, 50, ...
double nice_number(int index) {
  constexpr std::array mantissas = {1.0, 2.0, 5.0};
  int exponent = static_cast<int>(std::floor(index / 3.0));
  return mantissas[static_cast<size_t>(index - 3 * exponent)] * std::pow(10.0, exponent);
}

Text plain_label(const Axis& axis, double value, double step) {
  int step_exponent = static_cast<int>(std::floor(std::log10(step) + 1e-9));
  double largest = std::max(std::abs(axis.min), std::abs(axis.max));
  int exponent = static_cast<int>(std::floor(std::log10(largest)));
  if (value == 0) return {"0"};
  if (exponent >= -4 && exponent < 6) {
    return {signed_text(fmt::format("{:.{}f}", value, std::max(0, -step_exponent)))};
  }
  double mantissa = value / std::pow(10.0, exponent);
  int decimals = std::max(0, exponent - step_exponent);
  return {signed_text(fmt::format("{:.{}f}×10", mantissa, decimals)),
          signed_text(fmt::format("{}", exponent))};
}

std::vector<Tick> ticks_every(const Axis& axis, double step) {
  std::vector<Tick> ticks;
  double first = std::ceil(axis.min / step - 1e-9), last = std::floor(axis.max / step + 1e-9);
  for (int i = 0; i <= last - first; ++i) {
    double value = (first + i) * step;
    ticks.push_back({value, plain_label(axis, value, step)});
  }
  return ticks;
}

bool fits(const AxisScale& scale, const std::vector<Tick>& ticks) {
  for (size_t i = 1; i < ticks.size(); ++i) {
    double distance = std::abs(scale.at(ticks[i].value) - scale.at(ticks[i - 1].value));
    double room = std::max(scale.room_for(ticks[i].label), scale.room_for(ticks[i - 1].label));
    if (distance < room) return false;
  }
  return true;
}

std::vector<Tick> linear_ticks(const AxisScale& scale) {
  const Axis& axis = scale.axis();
  double units = kTickFont * (axis.max - axis.min) / scale.pixels();
  int index = 3 * static_cast<int>(std::floor(std::log10(units)));
  while (true) {
    std::vector<Tick> ticks = ticks_every(axis, nice_number(index++));
    if (fits(scale, ticks)) return ticks;
  }
}

// With less than two powers of the base in sight, plain numbers say more.
std::vector<Tick> narrow_log_ticks(const AxisScale& scale) {
  const Axis& axis = scale.axis();
  std::vector<Tick> ticks;
  int first = 3 * static_cast<int>(std::floor(std::log10(axis.min)));
  for (int index = first; nice_number(index) <= axis.max; ++index) {
    double value = nice_number(index);
    if (scale.shows(value)) ticks.push_back({value, plain_label(axis, value, value)});
  }
  return ticks.size() > 3 && fits(scale, ticks) ? ticks : linear_ticks(scale);
}

int power_step(int base, double pixels_per_power, double room) {
  for (int index = 0;; ++index) {
    int step = base == 2 ? 1 << index : static_cast<int>(nice_number(index));
    if (step * pixels_per_power >= room) return step;
  }
}

std::vector<Tick> log_ticks(const AxisScale& scale) {
  const Axis& axis = scale.axis();
  double low = scale.transform(axis.min), high = scale.transform(axis.max);
  int first = static_cast<int>(std::ceil(low - 1e-9));
  int last = static_cast<int>(std::floor(high + 1e-9));
  if (last <= first) return narrow_log_ticks(scale);
  double per_power = scale.pixels() / (high - low);
  double room = std::max(scale.room_for(power_label(axis.base, first)),
                         scale.room_for(power_label(axis.base, last)));
  int step = power_step(axis.base, per_power, room);
  std::vector<Tick> ticks;
  for (int exponent = first - 1; exponent <= last; ++exponent) {
    double value = std::pow(axis.base, exponent);
    bool major = exponent % step == 0;
    if (exponent >= first && (major || per_power >= 4)) {
      ticks.push_back({value, major ? power_label(axis.base, exponent) : Text{}});
    }
    for (int digit = 2; step == 1 && digit < axis.base; ++digit) {
      if (scale.shows(digit * value)) ticks.push_back({digit * value});
    }
  }
  return ticks;
}

}  // namespace

Text power_label(int base, int exponent) {
  return {fmt::format("{}", base), signed_text(fmt::format("{}", exponent))};
}

std::vector<Tick> ticks_of(const AxisScale& scale) {
  std::vector<Tick> named;
  for (const std::string& name : scale.axis().categories) {
    named.push_back({static_cast<double>(named.size()), {name}});
  }
  if (!named.empty()) return named;
  return scale.axis().base == 0 ? linear_ticks(scale) : log_ticks(scale);
}

void check(const Axis& axis, std::string_view name) {
  if (axis.base != 0 && axis.base != 2 && axis.base != 10) {
    throw Error("chart: the {} axis has base {}; expected 2, 10, or 0 for linear", name, axis.base);
  }
  if (!(axis.min < axis.max) || !std::isnormal(axis.max - axis.min)) {
    throw Error("chart: the {} axis runs from {} to {}; expected finite min < max", name, axis.min,
                axis.max);
  }
  if (axis.base != 0 && axis.min <= 0) {
    throw Error("chart: the {} axis is logarithmic and starts at {}; expected min > 0", name,
                axis.min);
  }
}

}  // namespace sigma1
