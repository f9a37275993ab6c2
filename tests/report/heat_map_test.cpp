// That every number of a tensor is counted in the bin its magnitude belongs to, and shown.
#include "sigma1/report/heat_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "sigma1/base/error.h"
#include "tests/report/scale_reader.h"

namespace sigma1 {
namespace {

using Subnormals = MagnitudeAxis::Subnormals;

// The only bin that has numbers.
size_t bin_of(const MagnitudeAxis& axis, float number) {
  std::vector<double> shares = axis.shares(stats_of({number, -number}));
  size_t found = shares.size();
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0) continue;
    EXPECT_EQ(shares[i], 1);
    EXPECT_EQ(found, shares.size());
    found = i;
  }
  return found;
}

std::string label_of(const MagnitudeAxis& axis, float number) {
  return axis.bins().at(bin_of(axis, number)).label.body;
}

TEST(MagnitudeAxis, HasABinForEachBinadeAndForWhatFp16CannotHold) {
  MagnitudeAxis axis(Subnormals::by_binade, 5);
  ASSERT_EQ(axis.bins().size(), 43U);  // 2^-24 … 2^15, and three
  for (int exponent = -24; exponent <= 15; ++exponent) {
    float lowest = std::ldexp(1.0F, exponent);
    float highest = std::nextafter(2 * lowest, 0.0F);
    const MagnitudeBin& bin = axis.bins().at(bin_of(axis, lowest));
    EXPECT_EQ(bin_of(axis, highest), bin_of(axis, lowest)) << exponent;
    EXPECT_NEAR(bin.from, axis.at(lowest), 1e-9) << exponent;
    EXPECT_NEAR(bin.to, axis.at(2 * lowest), 1e-9) << exponent;
  }
  EXPECT_EQ(label_of(axis, 0), "zero");
  EXPECT_EQ(label_of(axis, std::nextafter(0x1p-24F, 0.0F)), "< 2");
  EXPECT_EQ(label_of(axis, 1e-45F), "< 2");
  for (float beyond : {0x1p16F, 0x1.fp127F, INFINITY, NAN})
    EXPECT_EQ(label_of(axis, beyond), "inf");
}

TEST(MagnitudeAxis, CanHoldFp16sSubnormalsInOneBin) {
  MagnitudeAxis axis(Subnormals::one_bin, 5);
  ASSERT_EQ(axis.bins().size(), 34U);  // 2^-14 … 2^15, and four
  for (float subnormal : {0x1p-24F, 0x1p-20F, 0x1.fffffep-15F}) {
    EXPECT_EQ(label_of(axis, subnormal), "subnormal");
  }
  EXPECT_EQ(label_of(axis, 0x1.fffffep-25F), "< 2");
  EXPECT_EQ(bin_of(axis, 0x1p-14F), bin_of(axis, 0x1p-15F) + 1);
  const MagnitudeBin& bin = axis.bins().at(2);
  EXPECT_NEAR(axis.at(0x1p-24), bin.from, 1e-9);
  EXPECT_NEAR(axis.at(0x1p-16), bin.from + 0.8 * (bin.to - bin.from), 1e-9);
  EXPECT_NEAR(axis.at(0x1p-14), bin.to, 1e-9);
  EXPECT_NEAR(axis.at(3) - axis.at(2), 5 * std::log2(1.5), 1e-9);
  EXPECT_THROW(axis.at(0x1p-25), Bug);
  EXPECT_THROW(axis.at(0x1p17), Bug);
}

TEST(MagnitudeAxis, BinsDoNotOverlapAndFillTheLength) {
  for (Subnormals subnormals : {Subnormals::by_binade, Subnormals::one_bin}) {
    MagnitudeAxis axis(subnormals, 4);
    for (size_t i = 1; i < axis.bins().size(); ++i) {
      EXPECT_GE(axis.bins()[i].from, axis.bins()[i - 1].to);
      EXPECT_GT(axis.bins()[i].to, axis.bins()[i].from);
    }
    int binades = axis.last_binade() - axis.first_binade() + 1;
    EXPECT_NEAR(axis.length(), MagnitudeAxis::special_pixels(subnormals) + 4 * binades, 1e-9);
  }
}

TEST(MagnitudeAxis, SharesAreOfAllNumbers) {
  MagnitudeAxis axis(Subnormals::one_bin, 4);
  std::vector<double> shares = axis.shares(stats_of({0, 0, 0, 1, 1.5, 0x1p-20F, NAN, INFINITY}));
  EXPECT_EQ(shares.front(), 3.0 / 8);
  EXPECT_EQ(shares.back(), 2.0 / 8);
  EXPECT_EQ(shares.at(bin_of(axis, 1)), 2.0 / 8);
  EXPECT_EQ(shares.at(2), 1.0 / 8);
  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0.0), 1);
  std::vector<double> nothing = axis.shares({});
  EXPECT_EQ(nothing, std::vector<double>(axis.bins().size()));
}

int brightness(const std::string& colour) {
  int sum = 0;
  for (size_t i = 1; i < 7; i += 2) sum += std::stoi(colour.substr(i, 2), nullptr, 16);
  return sum;
}

TEST(Shade, IsDarkerForMoreAndNeverWhiteForAnyNumber) {
  EXPECT_EQ(shade(0), "#ffffff");
  EXPECT_LT(brightness(shade(1e-9)), brightness("#ffffff") - 10);
  double last = brightness(shade(0.005));
  for (double share : {0.02, 0.1, 0.3, 0.5, 0.7, 0.85, 1.0}) {
    EXPECT_LT(brightness(shade(share)), last) << share;
    last = brightness(shade(share));
  }
}

TEST(ShadeLegend, RunsFromNothingToAll) {
  Svg svg(300, 100);
  draw_shade_legend(svg, {10, 10});
  std::string text = std::move(svg).finish();
  auto steps = with_class(text, "shade");
  ASSERT_GE(steps.size(), 32U);
  for (size_t i = 1; i < steps.size(); ++i) {
    EXPECT_LE(brightness(steps[i].attribute("fill")), brightness(steps[i - 1].attribute("fill")));
  }
  std::set<std::string> labels;
  for (const Element& e : with_tag(text, "text")) labels.insert(e.content);
  EXPECT_TRUE(labels.contains("0") && labels.contains("100%"));
}

}  // namespace
}  // namespace sigma1
