// What the figures of runs show: every run, where its value is, under its name.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"
#include "sigma1/report/axis.h"
#include "sigma1/report/figures.h"
#include "tests/report/svg_reader.h"

namespace sigma1 {
namespace {

struct Run {
  std::string context, precision;
  std::vector<double> bits;  // at rates 1/8, 1/4, …; 0: diverged
};

SweepResult result_of(const std::vector<Run>& runs) {
  SweepResult result{.keys = {"context", "precision"}, .combinations = {}, .finished = true};
  for (const Run& run : runs) {
    SweptCombination each;
    each.combination.settings = {{"context", run.context}, {"precision", run.precision}};
    double rate = 0.125;
    for (double bits : run.bits) {
      each.rows.push_back({rate, {.diverged = bits == 0, .valid_bpc = bits}, ""});
      rate *= 2;
    }
    result.combinations.push_back(std::move(each));
  }
  return result;
}

const std::vector<Run> kRuns = {
    {"conv", "fp32", {3, 2, 2.5}},    {"conv", "fp8", {3, 2.25, 0}},
    {"rnn", "fp32", {4, 3.5, 3}},     {"rnn", "fp8", {0}},
    {"attention", "fp32", {5, 4, 6}}, {"attention", "fp8", {4.5, 4.25}}};

const std::vector<std::string> kPrecision = {"precision"}, kBoth = {"precision", "context"};

// Reads a value off the y axis by the two outermost ticks, as a person with a ruler would.
double value_at(const std::string& svg, double y) {
  auto ticks = labels(svg, "y-tick");
  auto height = [](const Label& tick) { return tick.y - 0.36 * kTickFont; };
  double low = std::stod(ticks.front().content), high = std::stod(ticks.back().content);
  return low + (high - low) * (y - height(ticks.front())) /
                   (height(ticks.back()) - height(ticks.front()));
}

// Without the one of the legend, which stands right of the axis.
std::vector<Element> dots(const std::string& svg) {
  std::vector<Element> found;
  double right =
      with_tag(svg, "rect").at(1).number("x") + with_tag(svg, "rect").at(1).number("width");
  for (const Element& e : with_class(svg, "point")) {
    if (e.tag == "circle" && e.number("cx") < right) found.push_back(e);
  }
  return found;
}

size_t crosses(const std::string& svg) {
  return static_cast<size_t>(std::ranges::count_if(
      with_class(svg, "point"), [](const Element& e) { return e.tag == "path"; }));
}

TEST(SweepFigure, HasAColumnForEachValueAndAPointForEachCombinationAtItsBest) {
  std::string svg = sweep_figure(result_of(kRuns), kPrecision);
  EXPECT_EQ(names_of(svg, "x-tick"), (std::vector<std::string>{"fp32", "fp8"}));
  auto ticks = labels(svg, "x-tick");
  double columns = ticks[1].x - ticks[0].x;
  std::map<size_t, std::vector<double>> shown;
  for (const Element& dot : dots(svg)) {
    size_t column = dot.number("cx") - ticks[0].x > columns / 2 ? 1 : 0;
    EXPECT_LT(std::abs(dot.number("cx") - ticks[column].x), columns / 4);
    shown[column].push_back(value_at(svg, dot.number("cy")));
  }
  std::vector<double> fp32{2, 3, 4}, fp8{2.25, 4.25};
  ASSERT_EQ(shown[0].size(), fp32.size());
  ASSERT_EQ(shown[1].size(), fp8.size());
  for (size_t i = 0; i < fp32.size(); ++i) EXPECT_NEAR(shown[0][i], fp32[i], 0.01);
  for (size_t i = 0; i < fp8.size(); ++i) EXPECT_NEAR(shown[1][i], fp8[i], 0.01);
}

TEST(SweepFigure, MarksMediansAndWhatDiverged) {
  std::string svg = sweep_figure(result_of(kRuns), kPrecision);
  std::vector<double> medians;
  for (const Element& line : with_tag(svg, "line")) {
    if (line.attribute("stroke-width") == "2.4")
      medians.push_back(value_at(svg, line.number("y1")));
  }
  ASSERT_EQ(medians.size(), 3U);  // the legend's is last
  EXPECT_NEAR(medians[0], 3, 0.01);
  EXPECT_NEAR(medians[1], 3.25, 0.01);
  EXPECT_EQ(crosses(svg), 2U);  // one, and one in the legend
  EXPECT_EQ(names_of(svg, "legend"),
            (std::vector<std::string>{"best over rates", "median", "diverged"}));
  std::string without = sweep_figure(result_of({kRuns[0], kRuns[1]}), kPrecision);
  EXPECT_EQ(crosses(without), 0U);
}

TEST(SweepFigure, ColumnsOfSeveralKeysHaveALineForEach) {
  std::string svg = sweep_figure(result_of(kRuns), kBoth);
  auto ticks = labels(svg, "x-tick");
  ASSERT_EQ(ticks.size(), 12U);
  EXPECT_EQ(ticks[2].content, "fp8");
  EXPECT_EQ(ticks[3].content, "conv");
  EXPECT_EQ(ticks[2].x, ticks[3].x);
  EXPECT_GE(ticks[3].y - ticks[2].y, kTickFont);
  for (size_t i = 3; i < ticks.size(); i += 2) {
    EXPECT_GE(ticks[i].x - ticks[i].width / 2, ticks[i - 2].x + ticks[i - 2].width / 2);
  }
}

TEST(SweepFigure, CanShowThatEverythingDiverged) {
  std::string svg = sweep_figure(result_of({kRuns[3]}), kPrecision);
  EXPECT_EQ(crosses(svg), 2U);
  EXPECT_THROW(sweep_figure(result_of(kRuns), std::vector<std::string>{"depth"}), Error);
}

// A model of each kind; the bits per character tell all of them apart.
SweepResult residual_result() {
  SweepResult result{.keys = {"context", "norm", "depth", "method", "residual"},
                     .combinations = {},
                     .finished = true};
  double bits = 2;
  for (const char* context : {"conv", "attention"}) {
    for (const char* norm : {"pre", "none"}) {
      for (const char* method : {"none", "unit"}) {
        for (const char* residual : {"default", "fixed", "running-mean"}) {
          SweptCombination each;
          each.combination.settings = {{"context", context},
                                       {"norm", norm},
                                       {"depth", "8"},
                                       {"method", method},
                                       {"residual", residual}};
          bits += 0.05;
          each.rows.push_back({0.125, {.diverged = false, .valid_bpc = bits}, ""});
          each.rows.push_back({0.25, {.diverged = false, .valid_bpc = bits + 1}, ""});
          result.combinations.push_back(std::move(each));
        }
      }
    }
  }
  return result;
}

struct Mark {
  std::string shape, colour;
  bool hollow;
  Point at;
};

// In the order of the series, the legend's last.
std::vector<Mark> marks_of(const std::string& svg) {
  std::vector<Mark> marks;
  for (const Element& e : with_class(svg, "point")) {
    if (e.tag == "path") continue;
    bool hollow = e.attribute("fill") == "none";
    Mark mark{e.tag, e.attribute(hollow ? "stroke" : "fill"), hollow, {}};
    if (e.tag == "circle") {
      mark.at = {e.number("cx"), e.number("cy")};
    } else {
      std::vector<std::string> corners = split(e.attribute("points"), ' ');
      mark.shape += std::to_string(corners.size());
      double corners_count = static_cast<double>(corners.size());
      for (const std::string& corner : corners) {
        mark.at.x += std::stod(split(corner, ',')[0]) / corners_count;
        mark.at.y += std::stod(split(corner, ',')[1]) / corners_count;
      }
    }
    marks.push_back(mark);
  }
  return marks;
}

TEST(ResidualFigure, ComparesWeightingsWithinEachKindOfModel) {
  SweepResult result = residual_result();
  std::string svg = residual_figure(result);
  EXPECT_EQ(names_of(svg, "x-tick"),
            (std::vector<std::string>{"conv", "8 layers", "attention", "8 layers"}));
  EXPECT_EQ(names_of(svg, "legend"),
            (std::vector<std::string>{"regular, default", "regular, fixed", "regular, running-mean",
                                      "unit scaling, default", "unit scaling, fixed",
                                      "unit scaling, running-mean"}));
  auto ticks = labels(svg, "x-tick");
  auto marks = marks_of(svg);
  ASSERT_EQ(marks.size(), 30U);  // 6 series of 4 runs, 6 in the legend
  for (size_t i = 0; i < 24; ++i) {
    size_t series = i / 4, model = i % 4 / 2, norm = i % 2;
    const SweptCombination& run = result.combinations[12 * model + 6 * norm + series];
    EXPECT_NEAR(value_at(svg, marks[i].at.y), run.best()->outcome.valid_bpc, 0.03);
    double from_middle = marks[i].at.x - ticks[2 * model].x;
    EXPECT_EQ(from_middle < 0, series < 3) << "regular is left of unit-scaled";
    EXPECT_LT(std::abs(from_middle), (ticks[2].x - ticks[0].x) / 2);
    if (series > 0) {
      EXPECT_GT(marks[i].at.x, marks[i - 4].at.x);
    }
  }
}

TEST(ResidualFigure, ShowsWeightingsByShapeAndColourAndMethodsByFilling) {
  auto marks = marks_of(residual_figure(residual_result()));
  for (size_t weighting = 0; weighting < 3; ++weighting) {
    const Mark &regular = marks.at(24 + weighting), &unit = marks.at(27 + weighting);
    EXPECT_EQ(regular.shape, unit.shape);
    EXPECT_EQ(regular.colour, unit.colour);
    EXPECT_TRUE(regular.hollow);
    EXPECT_FALSE(unit.hollow);
    for (size_t other = 0; other < weighting; ++other) {
      EXPECT_NE(regular.shape, marks[24 + other].shape);
      EXPECT_NE(regular.colour, marks[24 + other].colour);
    }
  }
}

TEST(ResidualFigure, MarksWhatDivergedAndNeedsItsKeys) {
  SweepResult result = residual_result();
  EXPECT_EQ(crosses(residual_figure(result)), 0U);
  for (SweepRow& row : result.combinations[0].rows) row.outcome.diverged = true;
  std::string svg = residual_figure(result);
  EXPECT_EQ(crosses(svg), 2U);
  EXPECT_EQ(marks_of(svg).size(), 29U);
  EXPECT_THROW(residual_figure(result_of(kRuns)), Error);
  EXPECT_THROW(residual_figure({}), Error);
}

TEST(LadderFigure, HasALineForEachCombinationOverItsRates) {
  std::string svg = ladder_figure(result_of({kRuns[0], kRuns[1]}));
  EXPECT_EQ(names_of(svg, "legend"), (std::vector<std::string>{"fp32", "fp8", "diverged"}));
  EXPECT_EQ(with_class(svg, "series").size(), 2U);
  EXPECT_EQ(names_of(svg, "x-tick"),
            (std::vector<std::string>{"2\u22123", "2\u22122", "2\u22121"}));
  auto ticks = labels(svg, "x-tick");
  auto points = dots(svg);
  ASSERT_EQ(points.size(), 6U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(points[i].number("cx"), ticks[i].x, 0.01);
    EXPECT_NEAR(value_at(svg, points[i].number("cy")), kRuns[0].bits[i], 0.01);
  }
  // The one that diverged is up at the edge, with a cross on it.
  EXPECT_GT(value_at(svg, points[5].number("cy")), 3);
  EXPECT_EQ(crosses(svg), 2U);
}

TEST(LossCurvesFigure, DrawsRunningMeansAndSaysSo) {
  NamedCurve curve{"a", {{1, 2, 3, 4}, {4, 2, 2, 6}}};
  std::string plain = loss_curves_figure(std::span(&curve, 1), "loss", 1);
  std::string smooth = loss_curves_figure(std::span(&curve, 1), "loss", 2);
  EXPECT_NE(plain.find(">loss<"), std::string::npos);
  EXPECT_NE(smooth.find(">loss (running mean of 2)<"), std::string::npos);
  NamedCurve means{"a", {{1, 2, 3, 4}, {4, 3, 2, 4}}};
  std::string expected = loss_curves_figure(std::span(&means, 1), "loss (running mean of 2)", 1);
  EXPECT_EQ(smooth, expected);
  EXPECT_EQ(names_of(plain, "legend"), std::vector<std::string>{"a"});
  EXPECT_THROW(loss_curves_figure(std::span(&curve, 1), "loss", 0), Error);
}

TEST(SweepFigures, AreTheSameBytesEveryTime) {
  EXPECT_EQ(sweep_figure(result_of(kRuns), kBoth), sweep_figure(result_of(kRuns), kBoth));
  EXPECT_EQ(ladder_figure(result_of(kRuns)), ladder_figure(result_of(kRuns)));
}

}  // namespace
}  // namespace sigma1
