// The figures stand for the paper's, so what they show is held here: every format, the whole range,
// and no curve lost under another one.
#include "sigma1/report/figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "sigma1/numerics/snr.h"
#include "sigma1/report/axis.h"
#include "tests/report/svg_reader.h"

namespace sigma1 {
namespace {

const std::vector<std::string> kNames = {"fp8_e5m2fnuz", "fp16", "fp8_e5m2", "fp8_e4m3fnuz"};

std::vector<double> sigmas() {
  std::vector<double> values;
  for (int exponent = -24; exponent <= 16; ++exponent) values.push_back(std::exp2(exponent));
  return values;
}

std::string figure(bool with_outliers = false) {
  std::vector<NamedCast> casts;
  casts.reserve(kNames.size());
  for (const std::string& name : kNames) casts.push_back({name, {find_format(name).format}});
  return snr_figure(casts, sigmas(), with_outliers);
}

// By name: a curve is found by the style that the legend gives it, as a reader finds it.
std::map<std::string, Element> curves(const std::string& svg) {
  std::map<std::string, Element> found;
  for (const LegendEntry& entry : legend(svg)) {
    for (const Element& curve : with_class(svg, "series")) {
      if (style_of(curve) == entry.style) found.emplace(entry.name, curve);
    }
  }
  return found;
}

std::vector<Point> points_of(const Element& curve) {
  std::vector<Point> points;
  std::string path = curve.attribute("d");
  for (size_t at = 0; at < path.size(); at = path.find_first_of("ML", at + 1)) {
    points.push_back({std::stod(path.substr(at + 1)), std::stod(path.substr(path.find(' ', at)))});
  }
  return points;
}

TEST(SnrFigure, HasOneCurvePerCastAndItsNameInTheLegendInOrder) {
  std::string svg = figure();
  std::vector<std::string> names;
  for (const LegendEntry& entry : legend(svg)) names.push_back(entry.name);
  EXPECT_EQ(names, kNames);
  EXPECT_EQ(with_class(svg, "series").size(), kNames.size());
  EXPECT_EQ(curves(svg).size(), kNames.size());
}

TEST(SnrFigure, AxesSpanTheSigmas) {
  std::string svg = figure();
  auto ticks = labels(svg, "x-tick");
  EXPECT_EQ(ticks.front().content, "2\u221224");
  EXPECT_EQ(ticks.back().content, "216");
  Element plot = with_tag(svg, "rect").at(1);  // what the curves are clipped to
  EXPECT_NEAR(ticks.front().x, plot.number("x"), 1);
  EXPECT_NEAR(ticks.back().x, plot.number("x") + plot.number("width"), 1);
  for (const auto& [name, curve] : curves(svg)) {
    std::vector<Point> points = points_of(curve);
    ASSERT_EQ(points.size(), sigmas().size()) << name;
    EXPECT_EQ(points.front().x, ticks.front().x) << name;
    EXPECT_EQ(points.back().x, ticks.back().x) << name;
  }
}

TEST(SnrFigure, CurvesHaveTheHeightOfTheirSnr) {
  std::string svg = figure();
  std::map<std::string, double> height;
  for (const Label& tick : labels(svg, "y-tick")) height[tick.content] = tick.y - 0.36 * kTickFont;
  double per_decade = height.at("101") - height.at("100");
  for (const auto& [name, curve] : curves(svg)) {
    Cast cast{find_format(name).format};
    std::vector<Point> points = points_of(curve);
    for (size_t i = 0; i < points.size(); ++i) {
      double snr = normal_snr(cast, sigmas()[i]);
      EXPECT_NEAR(points[i].y, height.at("100") + per_decade * std::log10(snr), 0.1) << name;
    }
  }
}

TEST(SnrFigure, MarksOutliersOnlyWhenAsked) {
  EXPECT_TRUE(labels(figure(false), "mark").empty());
  std::string svg = figure(true);
  auto marks = labels(svg, "mark");
  auto ticks = labels(svg, "x-tick");
  double per_octave = (ticks.back().x - ticks.front().x) / 40;
  std::vector<double> places = {1, kMedianOutlier, kMaxOutlier};
  ASSERT_EQ(marks.size(), places.size());
  EXPECT_EQ(marks[0].content, "non-outliers");
  EXPECT_EQ(marks[1].content, "median outlier");
  EXPECT_EQ(marks[2].content, "maximum outlier");
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_NEAR(marks[i].x - ticks.front().x, per_octave * (24 + std::log2(places[i])), 5);
  }
}

TEST(SnrFigure, FnuzCurvesAreDashedOverTheOnesTheyCoincideWith) {
  std::string svg = figure();
  for (const auto& [name, curve] : curves(svg)) {
    EXPECT_EQ(!curve.attribute("stroke-dasharray").empty(), name.ends_with("fnuz")) << name;
  }
  auto drawn = with_class(svg, "series");
  ASSERT_EQ(drawn.size(), 4U);
  EXPECT_EQ(style_of(drawn[2]), style_of(curves(svg).at("fp8_e5m2fnuz")));
  EXPECT_EQ(style_of(drawn[3]), style_of(curves(svg).at("fp8_e4m3fnuz")));
}

TEST(SnrFigure, IsTheSameBytesEveryTime) { EXPECT_EQ(figure(true), figure(true)); }

}  // namespace
}  // namespace sigma1
