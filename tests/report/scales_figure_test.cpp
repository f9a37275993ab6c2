// What the histograms of a model show: a row for each tensor, over the same bins in every panel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/report/heat_map.h"
#include "sigma1/report/scale_figures.h"
#include "tests/report/scale_reader.h"

namespace sigma1 {
namespace {

constexpr TensorRole kActivation = TensorRole::activation, kWeight = TensorRole::weight,
                     kGradx = TensorRole::gradx, kGradw = TensorRole::gradw;

// Both panels have `a` and `c` in the four roles; the second lacks `b` and has `d` after `c`.
std::vector<ScalePanel> two_panels() {
  std::vector<ScalePanel> panels = {{"regular, at initialisation", {}},
                                    {"unit scaling, at initialisation", {}}};
  for (TensorRole role : {kActivation, kWeight, kGradx, kGradw}) {
    for (const char* name : {"a", "b", "c"}) {
      panels[0].tensors.push_back(tensor_of(name, role, {1, 1.5}));
    }
    panels[1].tensors.push_back(tensor_of("a", role, {1, 1.5}));
    panels[1].tensors.push_back(tensor_of("c", role, {0, 0x1p-30F, 0x1p-15F, 0x1p17F}));
    panels[1].tensors.push_back(tensor_of("d", role, {NAN}));
  }
  return panels;
}

std::vector<double> frame_lefts(const std::string& svg) {
  std::vector<double> lefts;
  for (const Element& frame : with_class(svg, "frame")) lefts.push_back(frame.number("x"));
  return lefts;
}

TEST(ScalesFigure, MatchesTensorsOverPanels) {
  std::string svg = scales_figure(two_panels());
  EXPECT_EQ(names_of(svg, "role"),
            (std::vector<std::string>{"activation", "weight", "gradx", "gradw"}));
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) names.insert(names.end(), {"a", "b", "c", "d"});
  EXPECT_EQ(names_of(svg, "name"), names);
  auto rows = cells_by_tensor(svg);
  ASSERT_EQ(rows.size(), 16U);
  double second = frame_lefts(svg).at(1);
  for (size_t row = 0; row < rows.size(); row += 4) {
    ASSERT_EQ(rows[row].size(), 2U);
    ASSERT_EQ(rows[row + 1].size(), 1U);  // the second panel has no b
    EXPECT_LT(rows[row + 1][0].number("x"), second);
    ASSERT_EQ(rows[row + 2].size(), 5U);
    ASSERT_EQ(rows[row + 3].size(), 1U);  // the first has no d
    EXPECT_GT(rows[row + 3][0].number("x"), second);
    auto label = labels(svg, "name").at(row);
    EXPECT_NEAR(middle(rows[row][0]), label.y - 0.36 * 9.5, 0.02);
  }
  expect_legible(svg);
}

// The middle of a bin that has a name, from the left of its panel.
double bin_x(const std::string& svg, const std::string& name) {
  for (const Element& bin : with_class(svg, "bin")) {
    if (bin.content == name) return bin.number("x") - 0.36 * 10 - frame_lefts(svg).at(0);
  }
  ADD_FAILURE() << "no bin " << name;
  return 0;
}

// From the left of the first panel, by its ticks.
double exponent_x(const std::string& svg, double exponent) {
  auto ticks = labels(svg, "x-tick");
  auto at = [&](const std::string& content) {
    auto tick = std::ranges::find(ticks, content, &Label::content);
    return tick == ticks.end() ? NAN : tick->x - frame_lefts(svg).at(0);
  };
  double low = at("20"), high = at("28");
  return low + (high - low) * exponent / 8;
}

TEST(ScalesFigure, CellsLieInTheirBinsAndPanelsHaveEqualColumns) {
  std::string svg = scales_figure(two_panels());
  auto rows = cells_by_tensor(svg);
  auto lefts = frame_lefts(svg);
  for (size_t panel : {0, 1}) {
    const Element& cell = rows[0].at(panel);
    EXPECT_EQ(cell.attribute("fill"), shade(1));
    EXPECT_NEAR(cell.number("x") - lefts[panel], exponent_x(svg, 0), 0.02);
    EXPECT_NEAR(cell.number("width"), exponent_x(svg, 1) - exponent_x(svg, 0), 0.02);
  }
  std::vector<std::string> bins = {"zero", "&lt; 2\u221224", "subnormal", "inf"};
  for (size_t i = 0; i < bins.size(); ++i) {
    const Element& cell = rows[2].at(i + 1);
    double x = cell.number("x") + cell.number("width") / 2 - lefts[1];
    EXPECT_NEAR(x, bin_x(svg, bins[i]), 0.02) << bins[i];
    EXPECT_EQ(cell.attribute("fill"), shade(0.25));
  }
  EXPECT_EQ(with_class(svg, "frame").at(0).number("width"),
            with_class(svg, "frame").at(1).number("width"));
}

TEST(ScalesFigure, LimitsAreThoseOfTheRolesFormat) {
  std::string svg = scales_figure(two_panels());
  auto limits = with_class(svg, "limit");
  auto lefts = frame_lefts(svg);
  ASSERT_EQ(limits.size(), 24U);  // 4 roles, 2 panels, 3 limits
  for (size_t i = 0; i < limits.size(); ++i) {
    double x = limits[i].number("x1") - lefts[i / 3 % 2];
    bool gradient = i >= 12;
    if (i % 3 == 0) {
      EXPECT_NEAR(x, exponent_x(svg, std::log2(gradient ? 57344 : 448)), 0.02);
    } else if (i % 3 == 1) {
      EXPECT_NEAR(x, exponent_x(svg, gradient ? -14 : -6), 0.02);
    } else if (gradient) {  // 2^-16 is eight tenths into the bin of subnormals
      double middle_of_bin = bin_x(svg, "subnormal");
      double half = exponent_x(svg, -14) - middle_of_bin;
      EXPECT_NEAR(x, middle_of_bin + 0.6 * half, 0.02);
    } else {
      EXPECT_NEAR(x, exponent_x(svg, -9), 0.02);
    }
  }
}

std::vector<ScalePanel> deep_model(int layers) {
  std::vector<ScalePanel> panels = {{"start", {}}, {"end", {}}};
  for (ScalePanel& panel : panels) {
    for (int i = 0; i < layers; ++i) {
      for (const char* part : {"norm", "linear", "gelu", "add"}) {
        std::string name = "layer" + std::to_string(i) + "/" + part;
        panel.tensors.push_back(tensor_of(name, kActivation, {1}));
      }
    }
  }
  return panels;
}

TEST(ScalesFigure, NamesEveryRowHoweverManyThereAre) {
  std::string svg = scales_figure(deep_model(100));
  auto names = labels(svg, "name");
  ASSERT_EQ(names.size(), 400U);
  for (size_t i = 1; i < names.size(); ++i) EXPECT_GE(names[i].y - names[i - 1].y, 9.5);
  EXPECT_TRUE(labels(svg, "left-out").empty());
  expect_legible(svg);
}

TEST(ScalesFigure, LeavesOutWholeLayersInTheMiddleWhenAsked) {
  std::string svg = scales_figure(deep_model(9), 18);
  auto names = names_of(svg, "name");
  ASSERT_EQ(names.size(), 16U);
  EXPECT_EQ(names[7], "layer1/add");
  EXPECT_EQ(names[8], "layer7/norm");
  EXPECT_EQ(names_of(svg, "left-out"), std::vector<std::string>{"… 20 more …"});
  auto rows = labels(svg, "name");
  double gap = labels(svg, "left-out").at(0).y;
  EXPECT_GT(gap, rows[7].y);
  EXPECT_LT(gap, rows[8].y);
  // Cells keep beside their names.
  EXPECT_NEAR(middle(cells_by_tensor(svg)[8][0]), rows[8].y - 0.36 * 9.5, 0.02);
  // A layer that would take more than half of the rows is cut.
  EXPECT_EQ(names_of(scales_figure(deep_model(9), 3), "name"),
            (std::vector<std::string>{"layer0/norm", "layer0/linear", "layer8/add"}));
  EXPECT_EQ(names_of(scales_figure(deep_model(9), 36), "name").size(), 36U);
}

TEST(ScalesFigure, KeepsTensorsOfOneNameApart) {
  ScalePanel panel{"one", {tensor_of("a", kGradx, {1}), tensor_of("a", kGradx, {2})}};
  std::string svg = scales_figure(std::vector<ScalePanel>{panel, panel});
  auto rows = cells_by_tensor(svg);
  ASSERT_EQ(rows.size(), 2U);
  ASSERT_EQ(rows[0].size(), 2U);
  EXPECT_NE(rows[0][0].number("x"), rows[1][0].number("x"));
}

TEST(ScalesFigure, TitlesStayApartAndOnThePage) {
  std::vector<ScalePanel> panels(5, {"unit scaling, at the end of training", {}});
  for (ScalePanel& panel : panels) panel.tensors = {tensor_of("a", kWeight, {1})};
  std::string svg = scales_figure(panels);
  auto titles = labels(svg, "title");
  ASSERT_EQ(titles.size(), 5U);
  for (size_t i = 1; i < titles.size(); ++i) {
    EXPECT_GE(titles[i].x - titles[i - 1].x, titles[i].width);
  }
  auto role = labels(svg, "role").at(0);
  EXPECT_GE(titles[0].x - titles[0].width / 2, role.x + role.width);
  expect_legible(svg);
  expect_legible(scales_figure(std::span(panels).first(1)));
}

TEST(ScalesFigure, NeedsATensor) {
  EXPECT_THROW(scales_figure({}), Error);
  EXPECT_THROW(scales_figure(std::vector<ScalePanel>{{"empty", {}}}), Error);
  std::vector<ScalePanel> hollow = {{"a", {tensor_of("none", kGradw, {})}}, {"b", {}}};
  EXPECT_TRUE(cells_by_tensor(scales_figure(hollow)).at(0).empty());
}

TEST(ScalesFigure, IsTheSameBytesEveryTime) {
  EXPECT_EQ(scales_figure(two_panels()), scales_figure(two_panels()));
}

}  // namespace
}  // namespace sigma1
