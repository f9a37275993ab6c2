// Where everything of a line chart goes. All text is measured before anything is placed, so that no
// label ever covers another one or the data.
#pragma once

#include <string>
#include <vector>

#include "sigma1/report/line_chart.h"
#include "sigma1/report/svg.h"

namespace sigma1 {

inline constexpr double kLegendFont = 12, kLabelFont = 13, kTitleFont = 15, kMarkFont = 11;
inline constexpr double kMargin = 14, kLegendRow = 19, kMarkRow = 15, kSwatch = 26, kTickRow = 15;

struct PlacedMark {
  double x = 0;
  std::string label = {};
  int row = 0;
};

struct Layout {
  double width = 0, height = 0;
  Box plot = {};
  std::vector<PlacedMark> marks = {};
};

Layout lay_out(const LineChart& chart);

}  // namespace sigma1
