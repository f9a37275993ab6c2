#include "sigma1/report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"
#include "sigma1/report/chart_layout.h"
#include "sigma1/report/svg.h"

namespace sigma1 {
namespace {

constexpr double kLineWidth = 1.8;
// Where the colours run out, each round of them has its own dashes. Those of a dashed series have
// gaps no shorter than the dashes, for the line underneath, and none has the period of a round, or
// dashes could fall on dashes all along.
constexpr std::array kRoundDashes = {"", "7 3", "2 3", "9 3 2 3"};
constexpr std::array kSeriesDashes = {"5.2 5.2", "3 6", "2 9", "8 8 2 8"};

std::string colour_of(const Series& series, size_t index) {
  return series.colour.empty() ? kColours[index % kColours.size()] : series.colour;
}

const char* dash_of(const Series& series, size_t index) {
  size_t round = index / kColours.size() % kRoundDashes.size();
  return series.dashed ? kSeriesDashes[round] : kRoundDashes[round];
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
  void x_axis() {
    for (const Tick& tick : ticks_of(x_)) {
      bool major = !tick.label.body.empty();
      double x = x_.at(tick.value), foot = plot_.bottom();
      if (major) svg_.line({x, plot_.y}, {x, foot}, {kGrid, 0.8});
      svg_.line({x, foot}, {x, foot + (major ? 6 : 3)}, {kInk, major ? 1 : 0.6});
      if (!major) continue;
      double y = foot + 20;
      for (const std::string& line : split(tick.label.body, '\n')) {
        svg_.text({x, y}, kTickFont, {line, tick.label.power},
                  {{"class", "x-tick"}, {"text-anchor", "middle"}, {"fill", kInk}});
        y += kTickRow;
      }
    }
  }

  void y_axis() {
    for (const Tick& tick : ticks_of(y_)) {
      bool major = !tick.label.body.empty();
      double y = y_.at(tick.value), side = plot_.x;
      if (major) svg_.line({side, y}, {plot_.right(), y}, {kGrid, 0.8});
      svg_.line({side - (major ? 6 : 3), y}, {side, y}, {kInk, major ? 1 : 0.6});
      if (!major) continue;
      svg_.text({side - 9, y + 0.36 * kTickFont}, kTickFont, tick.label,
                {{"class", "y-tick"}, {"text-anchor", "end"}, {"fill", kInk}});
    }
  }

  void marks() {
    for (const PlacedMark& mark : layout_.marks) {
      double top = plot_.y - kMarkRow * (mark.row + 1);
      svg_.line({mark.x, top + 3}, {mark.x, plot_.bottom()}, {"#777777", 0.9, "4 3"});
      svg_.text({mark.x + 4, top + kMarkFont}, kMarkFont, {mark.label},
                {{"class", "mark"}, {"fill", "#444444"}});
    }
  }

  void frame() {
    svg_.line({plot_.x, plot_.y}, {plot_.x, plot_.bottom()}, {kInk, 1});
    svg_.line({plot_.x, plot_.bottom()}, {plot_.right(), plot_.bottom()}, {kInk, 1});
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
      if (plot_.contains(points.back())) point(series, points.back(), index);
    }
    if (!series.line) return;
    std::string path;
    for (const std::vector<Point>& piece : clip_polyline(points, plot_)) {
      for (size_t i = 0; i < piece.size(); ++i) {
        path += fmt::format("{}{} {}", i == 0 ? 'M' : 'L', svg_number(piece[i].x),
                            svg_number(piece[i].y));
      }
      if (piece.size() == 1 && series.mark == PointMark::none)
        lone_point(piece[0], colour_of(series, index));
    }
    if (path.empty()) return;
    svg_.element("path", {{"class", "series"},
                          {"d", path},
                          {"stroke", colour_of(series, index)},
                          {"stroke-width", kLineWidth},
                          {"stroke-linejoin", "round"},
                          {"stroke-dasharray", dash_of(series, index)}});
  }

  void point(const Series& series, Point at, size_t index) {
    draw_mark(svg_, at,
              {series.mark, colour_of(series, index), series.line ? 1 : 0.7, series.hollow});
  }

  // A line of one point has no length and would not show.
  void lone_point(Point at, const std::string& colour) {
    svg_.element("circle", {{"cx", at.x}, {"cy", at.y}, {"r", 1.3 * kLineWidth}, {"fill", colour}});
  }

  void legend() {
    double x = plot_.right() + 16, y = plot_.y + kLegendRow / 2;
    for (size_t i = 0; i < chart_.series.size(); ++i, y += kLegendRow) {
      const Series& series = chart_.series[i];
      if (series.line) {
        svg_.line({x, y}, {x + kSwatch, y},
                  {colour_of(series, i), 1.2 * kLineWidth, dash_of(series, i)});
      }
      point(series, {x + kSwatch / 2, y}, i);
      svg_.text({x + kSwatch + 7, y + 0.36 * kLegendFont}, kLegendFont, {series.name},
                {{"class", "legend"}, {"fill", kInk}});
    }
  }

  void labels() {
    svg_.text({plot_.x, kMargin + kTitleFont - 2}, kTitleFont, {chart_.title},
              {{"class", "title"}, {"font-weight", "bold"}, {"fill", kInk}});
    svg_.text({plot_.x + plot_.width / 2, layout_.height - 0.8 * kMargin}, kLabelFont,
              {chart_.x.label}, {{"text-anchor", "middle"}, {"fill", kInk}});
    Point at = {kMargin + kTickFont - 2, plot_.y + plot_.height / 2};
    svg_.text(at, kLabelFont, {chart_.y.label},
              {{"text-anchor", "middle"}, {"fill", kInk}, turned(at, -90)});
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
