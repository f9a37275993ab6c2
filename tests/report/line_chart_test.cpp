// A figure is read by eye, so what can go wrong unseen is held here: places, overlaps, hidden or
// broken lines, and text that breaks the document.
#include "sigma1/report/line_chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <locale>
#include <set>
#include <string>
#include <vector>

#include "sigma1/base/error.h"
#include "sigma1/report/svg.h"
#include "tests/report/svg_reader.h"

namespace sigma1 {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

LineChart small_chart() {
  return {.title = "SNR",
          .x = {.label = "σ", .min = std::exp2(-24), .max = std::exp2(16), .base = 2},
          .y = {.label = "SNR", .min = 1, .max = 1e7},
          .series = {{.name = "fp16", .x = {0.25, 1, 4}, .y = {10, 100, 1000}}}};
}

std::string path_of(const LineChart& chart) {
  return with_class(render_svg(chart), "series").at(0).attributes.at("d");
}

size_t count(const std::string& text, char wanted) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), wanted));
}

std::string message_of(const LineChart& chart) {
  try {
    (void)render_svg(chart);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LineChart, IsWellFormedWithHostileText) {
  LineChart chart = small_chart();
  chart.title = "a < b && \"c\" > 'd'";
  chart.x.label = "<x>";
  chart.series[0].name = "</text>";
  chart.marks = {{"R&D", 1}};
  std::string svg = render_svg(chart);
  EXPECT_NO_THROW(SvgParser(svg).parse()) << svg;
  EXPECT_NE(svg.find("a &lt; b &amp;&amp; &quot;c&quot; &gt; &#39;d&#39;"), std::string::npos);
  EXPECT_NE(svg.find(">R&amp;D<"), std::string::npos);
}

TEST(LineChart, PutsPointsWhereTheTicksSayTheyAre) {
  LineChart chart = small_chart();
  chart.series = {{.name = "s", .x = {1, 16}, .y = {10, 1000}}};
  std::string svg = render_svg(chart);
  auto x = labels(svg, "x-tick"), y = labels(svg, "y-tick");
  ASSERT_EQ(y.size(), 8U);
  EXPECT_LT(y[7].y, y[0].y);
  double baseline = 0.36 * 12;
  std::string expected = "M" + svg_number(x[6].x) + " " + svg_number(y[1].y - baseline) + "L" +
                         svg_number(x[7].x) + " " + svg_number(y[3].y - baseline);
  EXPECT_EQ(path_of(chart), expected);
}

TEST(LineChart, MarkLabelsStayApartFromEachOtherAndFromTheTitle) {
  LineChart chart = small_chart();
  chart.marks = {{"max outlier", 180}, {"non-outliers", 1}, {"median outlier", 60},
                 {"the same", 60},     {"edge", 65536},     {"not in sight", 1e9}};
  std::string svg = render_svg(chart);
  auto marks = labels(svg, "mark");
  ASSERT_EQ(marks.size(), 5U);
  for (size_t i = 0; i < marks.size(); ++i) {
    EXPECT_GT(marks[i].y - 11, labels(svg, "title").at(0).y);
    for (size_t j = 0; j < i; ++j) {
      const Label &left = marks[i].x < marks[j].x ? marks[i] : marks[j],
                  &right = marks[i].x < marks[j].x ? marks[j] : marks[i];
      bool beside = left.x + left.width < right.x;
      bool above = std::abs(left.y - right.y) > 11;
      EXPECT_TRUE(beside || above) << left.content << " / " << right.content;
      EXPECT_TRUE(beside || left.x == right.x || left.y < right.y) << "a line crosses a label";
    }
  }
}

TEST(LineChart, GrowsSoThatNoTextIsCutOff) {
  LineChart chart = small_chart();
  chart.width = chart.height = 100;
  chart.title = std::string(90, 'T');
  chart.marks = {{std::string(100, 'm'), 65536}};
  for (int i = 0; i < 30; ++i) chart.series.push_back({.name = std::string(40, 'w')});
  std::string svg = render_svg(chart);
  Element figure = with_tag(svg, "svg").at(0);
  for (const char* kind : {"title", "mark", "legend"}) {
    ASSERT_FALSE(labels(svg, kind).empty());
    for (const Label& label : labels(svg, kind)) {
      EXPECT_LE(label.x + label.width, figure.number("width")) << kind;
      EXPECT_LE(label.y, figure.number("height")) << kind;
    }
  }
}

TEST(LineChart, MakesRoomForALongName) {
  LineChart chart = small_chart();
  chart.series[0].name = "a name much longer than usual";
  std::string svg = render_svg(chart);
  Label name = labels(svg, "legend").at(0);
  EXPECT_LE(name.x + name.width, with_tag(svg, "svg").at(0).number("width"));
  EXPECT_EQ(with_tag(svg, "svg").at(0).attributes.at("viewBox"), "0 0 720 440");
}

TEST(LineChart, LegendNamesEverySeriesInItsOwnStyleBesideThePlot) {
  LineChart chart = small_chart();
  for (int i = 1; i < 20; ++i) {
    chart.series.push_back(chart.series[0]);
    chart.series.back().name = "series " + std::to_string(i);
  }
  std::string svg = render_svg(chart);
  auto entries = labels(svg, "legend");
  ASSERT_EQ(entries.size(), 20U);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(entries[i].content, chart.series[i].name);
    EXPECT_GT(entries[i].x, labels(svg, "x-tick").back().x);
  }
  std::set<std::string> styles;
  for (const Element& curve : with_class(svg, "series")) styles.insert(style_of(curve));
  EXPECT_EQ(styles.size(), 20U);
}

TEST(LineChart, DrawsDashedSeriesOverTheSolidOnesInTheColourTheyHaveAnyway) {
  LineChart chart = small_chart();
  chart.series.resize(3, chart.series[0]);
  auto solid = with_class(render_svg(chart), "series");
  chart.series[0].dashed = true;
  auto curves = with_class(render_svg(chart), "series");
  ASSERT_EQ(curves.size(), 3U);
  EXPECT_EQ(style_of(curves[0]), style_of(solid[1]));
  EXPECT_EQ(style_of(curves[1]), style_of(solid[2]));
  EXPECT_EQ(curves[2].attribute("stroke"), solid[0].attribute("stroke"));
  EXPECT_NE(curves[2].attribute("stroke-dasharray"), "");
  EXPECT_EQ(curves[1].attribute("stroke-dasharray"), "");
}

TEST(LineChart, LegendShowsTheLineOfItsCurveDashedOrNot) {
  LineChart chart = small_chart();
  chart.series = {{.name = "a", .x = {1, 2}, .y = {10, 20}, .dashed = true},
                  {.name = "b", .x = {1, 2}, .y = {30, 40}}};
  std::string svg = render_svg(chart);
  auto curves = with_class(svg, "series");
  auto entries = legend(svg);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[1].name, "b");
  EXPECT_EQ(entries[0].style, style_of(curves.at(1)));
  EXPECT_EQ(entries[1].style, style_of(curves.at(0)));
}

TEST(LineChart, DashedSeriesKeepAStyleOfTheirOwnWhereColoursRepeat) {
  LineChart chart = small_chart();
  chart.series.resize(32, chart.series[0]);
  std::set<std::string> styles;
  for (bool dashed : {false, true}) {
    for (Series& series : chart.series) series.dashed = dashed;
    for (const LegendEntry& entry : legend(render_svg(chart))) styles.insert(entry.style);
  }
  EXPECT_EQ(styles.size(), 64U);
}

TEST(LineChart, BreaksTheLineWhereAPointCannotBeDrawn) {
  for (double gap : {kNan, kInf, -kInf, 0.0, -5.0}) {
    LineChart chart = small_chart();
    chart.series = {{.name = "s", .x = {1, 2, 3, 4, 5}, .y = {10, 20, gap, 30, 40}}};
    std::string path = path_of(chart);
    EXPECT_EQ(count(path, 'M'), 2U) << gap;
    EXPECT_EQ(count(path, 'L'), 2U) << gap;
  }
}

TEST(LineChart, ShowsALonePointAsADot) {
  LineChart chart = small_chart();
  EXPECT_EQ(with_tag(render_svg(chart), "circle").size(), 0U);
  chart.series = {{.name = "s", .x = {1, 2, 3}, .y = {kNan, 20, kNan}}};
  EXPECT_EQ(with_tag(render_svg(chart), "circle").size(), 1U);
}

TEST(LineChart, ClipsToThePlot) {
  LineChart chart = small_chart();
  chart.y = {.min = 0, .max = 1, .base = 0};
  chart.series = {{.name = "s", .x = {1, 2, 4}, .y = {0.5, 1e300, 0.5}}};
  std::string svg = render_svg(chart);
  std::string id = with_tag(svg, "clipPath").at(0).attributes.at("id");
  EXPECT_NE(svg.find("clip-path=\"url(#" + id + ")\""), std::string::npos);
  EXPECT_LT(path_of(chart).size(), 60U) << "coordinates far outside";
}

class CommaNumbers : public std::numpunct<char> {
  [[nodiscard]] char do_decimal_point() const override { return ','; }
};

TEST(LineChart, IsTheSameBytesEveryTimeAndInEveryLocale) {
  std::string first = render_svg(small_chart());
  EXPECT_EQ(first, render_svg(small_chart()));
  std::locale before = std::locale::global(std::locale(std::locale::classic(), new CommaNumbers));
  std::string elsewhere = render_svg(small_chart());
  std::locale::global(before);
  EXPECT_EQ(first, elsewhere);
}

TEST(LineChart, SaysInOneLineWhatCannotBeDrawn) {
  auto broken = [](auto&& edit) {
    LineChart chart = small_chart();
    edit(chart);
    std::string message = message_of(chart);
    EXPECT_EQ(count(message, '\n'), 0U);
    return message;
  };
  EXPECT_EQ(broken([](LineChart&) {}), "");
  EXPECT_NE(broken([](LineChart& c) { c.series.clear(); }).find("nothing to draw"),
            std::string::npos);
  EXPECT_EQ(broken([](LineChart& c) { c.series[0].y.pop_back(); }),
            "chart: series 'fp16' has 3 x values but 2 y values");
  EXPECT_EQ(broken([](LineChart& c) { c.y.max = 1; }),
            "chart: the y axis runs from 1 to 1; expected finite min < max");
  EXPECT_NE(broken([](LineChart& c) { c.y.max = kNan; }), "");
  EXPECT_NE(broken([](LineChart& c) { c.x.max = kInf; }), "");
  EXPECT_EQ(broken([](LineChart& c) { c.x.min = 0; }),
            "chart: the x axis is logarithmic and starts at 0; expected min > 0");
  EXPECT_NE(broken([](LineChart& c) { c.x.base = 3; }).find("base 3"), std::string::npos);
  EXPECT_NE(broken([](LineChart& c) { c.width = 0; }), "");
}

}  // namespace
}  // namespace sigma1
