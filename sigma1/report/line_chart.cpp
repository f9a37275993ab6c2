// Layout and drawing of a line chart. All text is measured before anything is placed, so that no
// label ever covers another one or the data.
#include "sigma1/report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sigma1/base/error.h"
#include "sigma1/report/svg.h"

namespace sigma1 {
namespace {

constexpr double kLegendFont = 12, kLabelFont = 13, kTitleFont = 15, kMarkFont = 11;
constexpr double kMargin = 14, kMinWidth = 240, kMinHeight = 160, kLegendRow = 19, kMarkRow = 15,
                 kSwatch = 26;
constexpr double kLineWidth = 1.8;
constexpr const char* kInk = "#222222";
constexpr const char* kGrid = "#e2e2e2";

// Okabe and Ito's palette, which colour-blind readers can tell apart; yellow, weak on white, last.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                 "#e69f00", "#56b4e9", "#000000", "#f0e442"};
// Where the colours run out, each round of them has its own dashes. Those of a dashed series have
// gaps no shorter than the dashes, for the line underneath, and none has the period of a round, or
// dashes could fall on dashes all along.
constexpr std::array kRoundDashes = {"", "7 3", "2 3", "9 3 2 3"};
constexpr std::array kSeriesDashes = {"5.2 5.2", "3 6", "2 9", "8 8 2 8"};

const char* colour_of(size_t index) { return kColours[index % kColours.size()]; }

const char* dash_of(const Series& series, size_t index) {
  size_t round = index / kColours.size() % kRoundDashes.size();
  return series.dashed ? kSeriesDashes[round] : kRoundDashes[round];
}

struct PlacedMark {
  double x = 0;
  std::string label = {};
  int row = 0;
};

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

struct Layout {
  double width = 0, height = 0;
  Box plot = {};
  std::vector<PlacedMark> marks = {};
};

double widest_label(const AxisScale& scale) {
  double widest = 0;
  for (const Tick& tick : ticks_of(scale))
    widest = std::max(widest, text_width(tick.label, kTickFont));
  return widest;
}

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
  double below = 24 + (chart.x.label.empty() ? 0 : 1.7 * kTickFont) + 0.6 * kMargin;
  plot.height = std::max(chart.height - plot.y - below, min_height);
  layout.height = plot.bottom() + below;
  return layout;
}

class Painter {
 public:
  Painter(const LineChart& chart, Layout layout)
      : chart_(chart),
        layout_(std::move(layout)),
        plot_(layout_.plot),
        x_(chart.x, plot_.x, plot_.right()),
        y_(chart.y, plot_.bottom(), plot_.y),
        svg_(layout_.width, layout_.height) {}

  std::string paint() && {
    x_axis();
    y_axis();
    marks();
    frame();
    curves();
    legend();
    labels();
    return std::move(svg_).finish();
  }

 private:
  void rule(Point a, Point b, const char* colour, double width, const char* dash = "") {
    svg_.element("line", {{"x1", a.x},
                          {"y1", a.y},
                          {"x2", b.x},
                          {"y2", b.y},
                          {"stroke", colour},
                          {"stroke-width", width},
                          {"stroke-dasharray", dash}});
  }

  void x_axis() {
    for (const Tick& tick : ticks_of(x_)) {
      bool major = !tick.label.body.empty();
      double x = x_.at(tick.value), foot = plot_.bottom();
      if (major) rule({x, plot_.y}, {x, foot}, kGrid, 0.8);
      rule({x, foot}, {x, foot + (major ? 6 : 3)}, kInk, major ? 1 : 0.6);
      if (!major) continue;
      svg_.text({x, foot + 20}, kTickFont, tick.label,
                {{"class", "x-tick"}, {"text-anchor", "middle"}, {"fill", kInk}});
    }
  }

  void y_axis() {
    for (const Tick& tick : ticks_of(y_)) {
      bool major = !tick.label.body.empty();
      double y = y_.at(tick.value), side = plot_.x;
      if (major) rule({side, y}, {plot_.right(), y}, kGrid, 0.8);
      rule({side - (major ? 6 : 3), y}, {side, y}, kInk, major ? 1 : 0.6);
      if (!major) continue;
      svg_.text({side - 9, y + 0.36 * kTickFont}, kTickFont, tick.label,
                {{"class", "y-tick"}, {"text-anchor", "end"}, {"fill", kInk}});
    }
  }

  void marks() {
    for (const PlacedMark& mark : layout_.marks) {
      double top = plot_.y - kMarkRow * (mark.row + 1);
      rule({mark.x, top + 3}, {mark.x, plot_.bottom()}, "#777777", 0.9, "4 3");
      svg_.text({mark.x + 4, top + kMarkFont}, kMarkFont, {mark.label},
                {{"class", "mark"}, {"fill", "#444444"}});
    }
  }

  void frame() {
    rule({plot_.x, plot_.y}, {plot_.x, plot_.bottom()}, kInk, 1);
    rule({plot_.x, plot_.bottom()}, {plot_.right(), plot_.bottom()}, kInk, 1);
  }

  void curves() {
    // Named after what it clips: figures put into one HTML page share their ids.
    std::string id = fmt::format("plot_{}_{}_{}_{}", svg_number(plot_.x), svg_number(plot_.y),
                                 svg_number(plot_.width), svg_number(plot_.height));
    double edge = kLineWidth / 2;  // a curve along the border keeps its full width
    svg_.open("clipPath", {{"id", id}});
    svg_.element("rect", {{"x", plot_.x - edge},
                          {"y", plot_.y - edge},
                          {"width", plot_.width + 2 * edge},
                          {"height", plot_.height + 2 * edge}});
    svg_.close();
    svg_.open("g", {{"clip-path", fmt::format("url(#{})", id)}, {"fill", "none"}});
    // Dashes hide nothing when they come last; solid lines over them would hide them whole.
    for (bool dashed : {false, true}) {
      for (size_t i = 0; i < chart_.series.size(); ++i) {
        if (chart_.series[i].dashed == dashed) curve(chart_.series[i], i);
      }
    }
    svg_.close();
  }

  void curve(const Series& series, size_t index) {
    std::vector<Point> points;
    for (size_t i = 0; i < series.x.size(); ++i) {
      points.push_back({x_.at(series.x[i]), y_.at(series.y[i])});
    }
    std::string path;
    for (const std::vector<Point>& piece : clip_polyline(points, plot_)) {
      for (size_t i = 0; i < piece.size(); ++i) {
        path += fmt::format("{}{} {}", i == 0 ? 'M' : 'L', svg_number(piece[i].x),
                            svg_number(piece[i].y));
      }
      if (piece.size() == 1) lone_point(piece[0], index);
    }
    if (path.empty()) return;
    svg_.element("path", {{"class", "series"},
                          {"d", path},
                          {"stroke", colour_of(index)},
                          {"stroke-width", kLineWidth},
                          {"stroke-linejoin", "round"},
                          {"stroke-dasharray", dash_of(series, index)}});
  }

  // A line of one point has no length and would not show.
  void lone_point(Point at, size_t index) {
    svg_.element("circle",
                 {{"cx", at.x}, {"cy", at.y}, {"r", 1.3 * kLineWidth}, {"fill", colour_of(index)}});
  }

  void legend() {
    double x = plot_.right() + 16, y = plot_.y + kLegendRow / 2;
    for (size_t i = 0; i < chart_.series.size(); ++i, y += kLegendRow) {
      rule({x, y}, {x + kSwatch, y}, colour_of(i), 1.2 * kLineWidth, dash_of(chart_.series[i], i));
      svg_.text({x + kSwatch + 7, y + 0.36 * kLegendFont}, kLegendFont, {chart_.series[i].name},
                {{"class", "legend"}, {"fill", kInk}});
    }
  }

  void labels() {
    svg_.text({plot_.x, kMargin + kTitleFont - 2}, kTitleFont, {chart_.title},
              {{"class", "title"}, {"font-weight", "bold"}, {"fill", kInk}});
    svg_.text({plot_.x + plot_.width / 2, layout_.height - 0.8 * kMargin}, kLabelFont,
              {chart_.x.label}, {{"text-anchor", "middle"}, {"fill", kInk}});
    Point at = {kMargin + kTickFont - 2, plot_.y + plot_.height / 2};
    svg_.text(
        at, kLabelFont, {chart_.y.label},
        {{"text-anchor", "middle"},
         {"fill", kInk},
         {"transform", fmt::format("rotate(-90 {} {})", svg_number(at.x), svg_number(at.y))}});
  }

  const LineChart& chart_;
  Layout layout_;
  Box plot_;
  AxisScale x_, y_;
  Svg svg_;
};

void check(const LineChart& chart) {
  check(chart.x, "x");
  check(chart.y, "y");
  bool empty = true;
  for (const Series& s : chart.series) {
    if (s.x.size() != s.y.size()) {
      throw Error("chart: series '{}' has {} x values but {} y values", s.name, s.x.size(),
                  s.y.size());
    }
    empty = empty && s.x.empty();
  }
  if (empty) throw Error("chart: nothing to draw, expected at least one series with points");
  for (double size : {chart.width, chart.height}) {
    if (!(size > 0 && size <= 10000)) {
      throw Error("chart: a size of {} x {} pixels; expected 0 < size <= 10000", chart.width,
                  chart.height);
    }
  }
}

}  // namespace

std::string render_svg(const LineChart& chart) {
  check(chart);
  return Painter(chart, lay_out(chart)).paint();
}

}  // namespace sigma1
