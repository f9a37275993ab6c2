#include "sigma1/report/chart_layout.h"

#include <algorithm>

#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

constexpr double kMinWidth = 240, kMinHeight = 160;

// Labels fly to the right of their line like flags. A mark stands higher than every mark that its
// flag reaches over, so neither labels nor lines cross.
std::vector<PlacedMark> place_marks(const std::vector<VerticalLine>& marks,
                                    const AxisScale& scale) {
  std::vector<PlacedMark> placed;
  for (const VerticalLine& mark : marks) {
    if (scale.shows(mark.x)) placed.push_back({scale.at(mark.x), mark.label});
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const PlacedMark& a, const PlacedMark& b) { return a.x < b.x; });
  for (size_t i = placed.size(); i-- > 0;) {
    double reach = placed[i].x + text_width({placed[i].label}, kMarkFont) + kMarkFont;
    for (size_t j = i + 1; j < placed.size() && placed[j].x < reach; ++j) {
      placed[i].row = std::max(placed[i].row, placed[j].row + 1);
    }
  }
  return placed;
}

double widest_label(const AxisScale& scale) {
  double widest = 0;
  for (const Tick& tick : ticks_of(scale)) {
    for (const std::string& line : split(tick.label.body, '\n')) {
      widest = std::max(widest, text_width({line, tick.label.power}, kTickFont));
    }
  }
  return widest;
}

// Lines of x labels below the first.
double more_lines(const Axis& axis) {
  int64_t most = 0;
  for (const std::string& name : axis.categories) {
    most = std::max<int64_t>(most, std::ranges::count(name, '\n'));
  }
  return static_cast<double>(most);
}

double room_of_categories(const Axis& axis, double widest) {
  return static_cast<double>(axis.categories.size()) * (widest + kTickFont);
}

}  // namespace

Layout lay_out(const LineChart& chart) {
  Layout layout;
  double legend = 0, mark_rows = 0;
  for (const Series& s : chart.series) legend = std::max(legend, text_width({s.name}, kLegendFont));
  double min_height = std::max({kMinHeight, kLegendRow * static_cast<double>(chart.series.size()),
                                text_width({chart.y.label}, kLabelFont)});
  double min_width = std::max(kMinWidth, text_width({chart.x.label}, kLabelFont));
  // The plot's size is not known yet; a longer axis has more labels and so never narrower ones.
  AxisScale tallest(chart.y, std::max(chart.height, min_height), 0);
  AxisScale longest(chart.x, 0, std::max(chart.width, min_width));
  min_width = std::max(min_width, room_of_categories(chart.x, widest_label(longest)));
  double overhang = kMargin / 2 + widest_label(longest) / 2;
  Box& plot = layout.plot;
  plot.x = kMargin + (chart.y.label.empty() ? 0 : 1.7 * kTickFont) + widest_label(tallest) + 10;
  plot.x = std::max(plot.x, overhang);
  double right = std::max(16 + kSwatch + 7 + legend + kMargin, overhang);
  plot.width = std::max(chart.width - plot.x - right, min_width);
  layout.width = std::max(plot.right() + right,
                          plot.x + text_width({chart.title}, 1.15 * kTitleFont) + kMargin);
  layout.marks = place_marks(chart.marks, AxisScale(chart.x, plot.x, plot.right()));
  for (const PlacedMark& mark : layout.marks) {
    mark_rows = std::max(mark_rows, mark.row + 1.0);
    layout.width = std::max(layout.width, mark.x + text_width({mark.label}, kMarkFont) + kMargin);
  }
  plot.y = kMargin + (chart.title.empty() ? 0 : kTitleFont + 10) + kMarkRow * mark_rows;
  double below = 24 + kTickRow * more_lines(chart.x) +
                 (chart.x.label.empty() ? 0 : 1.7 * kTickFont) + 0.6 * kMargin;
  plot.height = std::max(chart.height - plot.y - below, min_height);
  layout.height = plot.bottom() + below;
  return layout;
}

}  // namespace sigma1
