// What Figure 1 shows: every tensor under its name, σ and exponents where the axes say.
#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/report/axis.h"
#include "sigma1/report/heat_map.h"
#include "sigma1/report/scale_figures.h"
#include "tests/report/scale_reader.h"

namespace sigma1 {
namespace {

constexpr TensorRole kActivation = TensorRole::activation, kWeight = TensorRole::weight,
                     kGradx = TensorRole::gradx, kGradw = TensorRole::gradw;

// Of the lower part's axis, by its ticks; those of σ's come first.
double exponent_y(const std::string& svg, double exponent) {
  double low = 0, high = 0;
  for (const Label& tick : labels(svg, "y-tick")) {
    if (tick.content == "20") low = tick.y - 0.36 * kTickFont;
    if (tick.content == "212") high = tick.y - 0.36 * kTickFont;
  }
  return low + (high - low) * exponent / 12;
}

double tick_y(const std::string& svg, const std::string& label) {
  for (const Label& tick : labels(svg, "y-tick")) {
    if (tick.content == label) return tick.y - 0.36 * kTickFont;
  }
  ADD_FAILURE() << "no tick " << label;
  return 0;
}

const std::vector<TensorScale> kFfn = {
    tensor_of("x", kActivation, {1, -1}),
    tensor_of("up/weight", kWeight, {0x1p-6F, -0x1p-6F}),
    tensor_of("relu", kActivation, {0, 0, 0x1p-3F, 0x1p-2F}),
    tensor_of("relu", kGradx, {0x1p-20F, -0x1p-20F, 0x1p-26F}),
    tensor_of("up/weight", kGradw, {0x1p20F, INFINITY, NAN, 2}),
};

TEST(FfnFigure, HasANamedColumnForEveryTensorInBothHalves) {
  std::string svg = ffn_figure(kFfn, kFfn);
  EXPECT_EQ(cells_by_tensor(svg).size(), 2 * kFfn.size());
  std::vector<std::string> half = {"x", "up/weight", "relu", "∇ relu", "∇ up/weight"};
  std::vector<std::string> both = half;
  both.insert(both.end(), half.begin(), half.end());
  EXPECT_EQ(names_of(svg, "name"), both);
  EXPECT_EQ(names_of(svg, "title"), (std::vector<std::string>{"regular", "unit scaling"}));
  EXPECT_EQ(names_of(svg, "legend"),
            (std::vector<std::string>{"activation", "weight", "gradx", "gradw"}));
  expect_legible(svg);
}

TEST(FfnFigure, NamesOfManyTensorsStayApart) {
  std::vector<TensorScale> many;
  for (int i = 0; i < 70; ++i) many.push_back(tensor_of("layer/of/a/long/name", kGradx, {1}));
  std::string svg = ffn_figure(many, many);
  auto names = with_class(svg, "name");
  ASSERT_EQ(names.size(), 140U);
  for (size_t i = 1; i < names.size(); ++i) {
    EXPECT_GE(names[i].number("x") - names[i - 1].number("x"), names[i].number("font-size"));
  }
  expect_legible(svg);
}

TEST(FfnFigure, CellsLieAtTheirExponents) {
  std::string svg = ffn_figure(kFfn, kFfn);
  auto tensors = cells_by_tensor(svg);
  ASSERT_EQ(tensors[0].size(), 1U);
  EXPECT_EQ(tensors[0][0].attribute("fill"), shade(1));
  EXPECT_NEAR(middle(tensors[0][0]), exponent_y(svg, 0.5), 0.02);
  EXPECT_NEAR(tensors[0][0].number("height"), exponent_y(svg, 0) - exponent_y(svg, 1), 0.02);
  ASSERT_EQ(tensors[2].size(), 3U);
  EXPECT_NEAR(middle(tensors[2][0]), tick_y(svg, "zero"), 0.02);
  EXPECT_EQ(tensors[2][0].attribute("fill"), shade(0.5));
  EXPECT_NEAR(middle(tensors[2][1]), exponent_y(svg, -2.5), 0.02);
  EXPECT_NEAR(middle(tensors[2][2]), exponent_y(svg, -1.5), 0.02);
  EXPECT_EQ(tensors[2][2].attribute("fill"), shade(0.25));
  ASSERT_EQ(tensors[3].size(), 2U);
  EXPECT_NEAR(middle(tensors[3][0]), tick_y(svg, "&lt; 2\u221224"), 0.02);
  EXPECT_NEAR(middle(tensors[3][1]), exponent_y(svg, -19.5), 0.02);
  ASSERT_EQ(tensors[4].size(), 2U);
  EXPECT_NEAR(middle(tensors[4][1]), tick_y(svg, "inf"), 0.02);
  EXPECT_EQ(tensors[4][1].attribute("fill"), shade(0.75));
}

TEST(FfnFigure, MarksTheLimitsOfTheFp8FormatsInBothHalves) {
  std::string svg = ffn_figure(kFfn, kFfn);
  auto limits = with_class(svg, "limit");
  ASSERT_EQ(limits.size(), 8U);
  std::vector<double> exponents = {9, -6, 16, -14};  // E4M3's 448 is below 2^9
  for (size_t i = 0; i < limits.size(); ++i) {
    EXPECT_NEAR(limits[i].number("y1"), exponent_y(svg, exponents[i % 4]), 0.02);
    EXPECT_EQ(limits[i].number("y1"), limits[i].number("y2"));
    EXPECT_FALSE(limits[i].attribute("stroke-dasharray").empty());
  }
  EXPECT_EQ(names_of(svg, "mark"),
            (std::vector<std::string>{"σ = 1", "E4M3 max", "E4M3 min", "E5M2 max", "E5M2 min"}));
  auto marks = labels(svg, "mark");
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(marks[i + 1].y - 0.36 * 11, limits[i].number("y1"), 0.02);
  }
}

TEST(FfnFigure, DotsShowSigmaOnOneScale) {
  std::vector<TensorScale> regular = {tensor_of("x", kActivation, {1, -1}),
                                      tensor_of("y", kActivation, {0x1p-8F, -0x1p-8F})};
  std::vector<TensorScale> unit = {tensor_of("x", kActivation, {1, -1}),
                                   tensor_of("y", kActivation, {0.5F, -0.5F})};
  std::string svg = ffn_figure(regular, unit);
  Element frame = with_class(svg, "frame").at(0);
  std::vector<double> heights;
  for (const Element& dot : with_tag(svg, "circle")) {
    double y = dot.number("cy");
    if (y > frame.number("y") && y < frame.number("y") + frame.number("height"))
      heights.push_back(y);
  }
  auto ones = with_class(svg, "unit-sigma");
  ASSERT_EQ(ones.size(), 2U);
  double one = ones[0].number("y1"), octave = (tick_y(svg, "2\u22128") - one) / 8;
  EXPECT_EQ(ones[1].number("y1"), one);
  EXPECT_GT(octave, 0);
  ASSERT_EQ(heights.size(), 4U);
  EXPECT_NEAR(heights[0], one, 0.02);
  EXPECT_NEAR(heights[1], one + 8 * octave, 0.02);
  EXPECT_NEAR(heights[2], one, 0.02);
  EXPECT_NEAR(heights[3], one + octave, 0.02);
}

TEST(FfnFigure, TakesTensorsWithoutNumbersAndHalvesWithoutTensors) {
  std::vector<TensorScale> empty = {tensor_of("none", kActivation, {}),
                                    tensor_of("zeros", kGradx, {0, 0}),
                                    tensor_of("nan", kGradw, {NAN})};
  std::string svg = ffn_figure(empty, {});
  auto tensors = cells_by_tensor(svg);
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_TRUE(tensors[0].empty());
  EXPECT_EQ(tensors[1].size(), 1U);
  EXPECT_EQ(tensors[2].size(), 1U);
  EXPECT_EQ(svg.find("nan\""), std::string::npos);
  expect_legible(svg);
  EXPECT_THROW(ffn_figure({}, {}), Error);
}

TEST(FfnFigure, IsTheSameBytesEveryTime) {
  EXPECT_EQ(ffn_figure(kFfn, kFfn), ffn_figure(kFfn, kFfn));
}

}  // namespace
}  // namespace sigma1
