// Curves over logarithmic axes are how a low-precision format's range is judged at a glance; this
// draws them as a figure that can go into a paper as it is.
#pragma once

#include <string>
#include <vector>

#include "sigma1/report/axis.h"
#include "sigma1/report/palette.h"

namespace sigma1 {

// A point that is not finite, or not positive on a logarithmic axis, leaves a gap in the line.
struct Series {
  std::string name = {};
  std::vector<double> x = {}, y = {};
  bool dashed = false;  // drawn over the solid lines, so that one it coincides with shows through
  bool line = true;     // joins the points
  PointMark mark = PointMark::none;
  bool hollow = false;      // its marks are outlines
  std::string colour = {};  // empty: the palette's next
};

struct VerticalLine {
  std::string label = {};
  double x = 0;
};

struct LineChart {
  std::string title = {};
  Axis x = {}, y = {};
  std::vector<Series> series = {};
  std::vector<VerticalLine> marks = {};  // those outside the x axis are left out
  double width = 720, height = 440;      // pixels; the figure grows where text would be cut off
};

// Throws Error where the chart cannot be drawn as asked.
[[nodiscard]] std::string render_svg(const LineChart& chart);

}  // namespace sigma1
