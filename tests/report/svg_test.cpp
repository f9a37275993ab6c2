// Held apart from the charts: a wrong number, escape or cut here spoils every figure at once.
#include "sigma1/report/svg.h"

#include <gtest/gtest.h>

namespace sigma1 {
namespace {

TEST(SvgNumber, HasAtMostTwoDecimalsAndNoEmptyOnes) {
  EXPECT_EQ(svg_number(1.0 / 3), "0.33");
  EXPECT_EQ(svg_number(2.5), "2.5");
  EXPECT_EQ(svg_number(100), "100");
  EXPECT_EQ(svg_number(-0.001), "0");
  EXPECT_EQ(svg_number(-12.345678), "-12.35");
}

TEST(SvgText, EscapesWhatXmlReserves) {
  EXPECT_EQ(xml_escape("a<b & \"c\" > 'd'\x01"), "a&lt;b &amp; &quot;c&quot; &gt; &#39;d&#39; ");
}

TEST(ClipPolyline, CutsAtTheBorderAndJoinsInside) {
  Box box{0, 0, 10, 10};
  auto pieces = clip_polyline({{-10, 5}, {5, 5}, {5, 15}, {20, 15}, {20, 5}, {8, 5}}, box);
  ASSERT_EQ(pieces.size(), 2U);
  ASSERT_EQ(pieces[0].size(), 3U);
  EXPECT_EQ(pieces[0][0].x, 0);
  EXPECT_EQ(pieces[0][2].y, 10);
  ASSERT_EQ(pieces[1].size(), 2U);
  EXPECT_EQ(pieces[1][0].x, 10);
  EXPECT_EQ(pieces[1][1].x, 8);
}

TEST(ClipPolyline, KeepsASegmentThatOnlyPassesThroughAndDropsOneThatMisses) {
  Box box{0, 0, 10, 10};
  auto through = clip_polyline({{-5, 5}, {15, 5}}, box);
  ASSERT_EQ(through.size(), 1U);
  EXPECT_EQ(through[0].size(), 2U);
  EXPECT_TRUE(clip_polyline({{-5, 2}, {2, -10}}, box).empty());
}

TEST(ClipPolyline, LeavesNoLineAlongTheBorderBetweenExitAndReturn) {
  auto pieces = clip_polyline({{5, 5}, {15, 5}, {5, 15}, {5, 5}}, Box{0, 0, 10, 10});
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].back().x, 10);
  EXPECT_EQ(pieces[2].front().y, 10);
}

}  // namespace
}  // namespace sigma1
