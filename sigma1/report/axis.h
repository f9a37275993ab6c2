// One mapping from data to page for ticks, marks and curves alike, so that a point always lies
// where the tick beside it says.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sigma1/report/svg.h"

namespace sigma1 {

struct Axis {
  std::string label = {};
  double min = 0, max = 1;
  int base = 10;  // 2 or 10: logarithmic; 0: linear
  // Names at 0, 1, … of a linear axis instead of numbers; a name may have several lines.
  std::vector<std::string> categories = {};
};

// Throws Error, with the axis called `name`, where no scale can be made of it.
void check(const Axis& axis, std::string_view name);

inline constexpr double kTickFont = 12;

struct Tick {
  double value = 0;
  Text label = {};  // empty on a minor tick
};

// "2" with a raised "−14".
[[nodiscard]] Text power_label(int base, int exponent);

// Where data lands on the page; from > to on the y axis, because SVG counts downwards.
class AxisScale {
 public:
  AxisScale(Axis axis, double from, double to) : axis_(std::move(axis)), from_(from), to_(to) {}

  // In pixels; NaN for what a logarithmic axis cannot show.
  [[nodiscard]] double at(double value) const;
  [[nodiscard]] double transform(double value) const;
  [[nodiscard]] bool shows(double value) const;
  [[nodiscard]] double pixels() const;
  [[nodiscard]] const Axis& axis() const { return axis_; }
  [[nodiscard]] double room_for(const Text& label) const;

 private:
  Axis axis_;
  double from_, to_;
};

// In ascending order, far enough apart for their labels at kTickFont. Needs an axis that passes
// check().
[[nodiscard]] std::vector<Tick> ticks_of(const AxisScale& scale);

}  // namespace sigma1
