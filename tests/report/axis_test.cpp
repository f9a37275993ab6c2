// An axis must be readable for any span a caller may ask for, not only for the figures of the day.
#include "sigma1/report/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sigma1/report/line_chart.h"
#include "tests/report/svg_reader.h"

namespace sigma1 {
namespace {

// Of the labelled ticks only, a power after "^".
std::vector<std::string> tick_labels(const AxisScale& scale) {
  std::vector<std::string> found;
  for (const auto& [value, label] : ticks_of(scale)) {
    if (label.body.empty()) continue;
    found.push_back(label.body + (label.power.empty() ? "" : "^" + label.power));
  }
  return found;
}

using Labels = std::vector<std::string>;

// As they are on the page, where the layout has had its say.
std::vector<Label> drawn_ticks(const Axis& axis, double width) {
  LineChart chart;
  chart.x = axis;
  chart.y.base = 0;
  chart.width = width;
  chart.series.push_back({.name = "s", .x = {1}, .y = {1}});
  std::string svg = render_svg(chart);
  std::vector<Label> ticks = labels(svg, "x-tick");
  double right = with_tag(svg, "svg").at(0).number("width");
  EXPECT_GE(ticks.front().x, ticks.front().width / 2) << "cut off";
  EXPECT_LE(ticks.back().x + ticks.back().width / 2, right) << "cut off";
  return ticks;
}

TEST(Axis, LabelsEveryFourthOctaveAtItsPlace) {
  auto ticks = drawn_ticks({.min = std::exp2(-24), .max = std::exp2(16), .base = 2}, 720);
  ASSERT_EQ(ticks.size(), 11U);
  double left = ticks.front().x, per_octave = (ticks.back().x - left) / 40;
  EXPECT_GT(per_octave, 10);
  for (size_t i = 0; i < ticks.size(); ++i) {
    int exponent = -24 + 4 * static_cast<int>(i);
    std::string sign = exponent < 0 ? "\u2212" : "";
    EXPECT_EQ(ticks[i].content, "2" + sign + std::to_string(std::abs(exponent)));
    EXPECT_NEAR(ticks[i].x, left + per_octave * (exponent + 24), 0.02);
  }
}

TEST(Axis, KeepsTickLabelsApart) {
  std::vector<Axis> axes = {{.min = 0, .max = 1, .base = 0},
                            {.min = -1.7e9, .max = 3e9, .base = 0},
                            {.min = 1e9, .max = 1e9 + 7, .base = 0},
                            {.min = 1e9, .max = 1e9 + 1e-3, .base = 0},
                            {.min = 2, .max = 90},
                            {.min = 1.1, .max = 1.9, .base = 2},
                            {.min = 1e-300, .max = 1e300, .base = 2},
                            {.min = 1e-300, .max = 1e300}};
  for (double width : {240.0, 720.0, 2000.0}) {
    for (const Axis& axis : axes) {
      auto ticks = drawn_ticks(axis, width);
      EXPECT_GE(ticks.size(), 2U) << axis.min << " " << axis.max << " " << width;
      for (size_t i = 1; i < ticks.size(); ++i) {
        double gap = ticks[i].x - ticks[i - 1].x - (ticks[i].width + ticks[i - 1].width) / 2;
        EXPECT_GT(gap, 0) << ticks[i].content;
      }
    }
  }
}

TEST(Axis, LinearTicksAreRound) {
  AxisScale scale({.min = -1, .max = 1, .base = 0}, 300, 0);
  EXPECT_EQ(tick_labels(scale), (Labels{"\u22121.0", "\u22120.8", "\u22120.6", "\u22120.4",
                                        "\u22120.2", "0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
}

TEST(Axis, LargeNumbersShareTheirPowerOfTen) {
  AxisScale scale({.min = 0, .max = 2e9, .base = 0}, 0, 400);
  EXPECT_EQ(tick_labels(scale), (Labels{"0", "0.5×10^9", "1.0×10^9", "1.5×10^9", "2.0×10^9"}));
}

TEST(Axis, APowerOfTenHasAllItsDigitsAsMinorTicks) {
  AxisScale scale({.min = 1, .max = 100, .base = 10}, 0, 400);
  std::vector<double> values;
  for (const Tick& tick : ticks_of(scale)) values.push_back(tick.value);
  EXPECT_EQ(values, (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80,
                                         90, 100}));
  EXPECT_EQ(tick_labels(scale), (Labels{"10^0", "10^1", "10^2"}));
}

TEST(Axis, ShortLogarithmicAxisHasPlainNumbers) {
  AxisScale scale({.min = 2, .max = 90, .base = 10}, 0, 400);
  EXPECT_EQ(tick_labels(scale), (Labels{"2", "5", "10", "20", "50"}));
}

TEST(AxisScale, SpansItsPixelsInEitherDirection) {
  AxisScale scale({.min = 0.25, .max = 4, .base = 2}, 300, 100);
  EXPECT_EQ(scale.at(0.25), 300);
  EXPECT_EQ(scale.at(1), 200);
  EXPECT_EQ(scale.at(4), 100);
  EXPECT_EQ(scale.pixels(), 200);
  EXPECT_TRUE(scale.shows(0.25) && scale.shows(4));
  EXPECT_FALSE(scale.shows(0.2) || scale.shows(4.1));
}

TEST(AxisScale, HasNoPlaceOnALogarithmForWhatIsNotPositive) {
  AxisScale logarithmic({.min = 1, .max = 10}, 0, 100);
  EXPECT_TRUE(std::isnan(logarithmic.at(0)) && std::isnan(logarithmic.at(-1)));
  EXPECT_EQ(AxisScale({.min = -1, .max = 1, .base = 0}, 0, 100).at(-1), 0);
}

}  // namespace
}  // namespace sigma1
