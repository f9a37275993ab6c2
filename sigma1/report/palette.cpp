#include "sigma1/report/palette.h"

#include <fmt/format.h>

#include <vector>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

constexpr double kDot = 3, kBar = 15, kCross = 4, kOutline = 1.4;

void cross(Svg& svg, Point at, const MarkStyle& style) {
  svg.element("path", {{"class", "point"},
                       {"d", fmt::format("M{0} {1}L{2} {3}M{0} {3}L{2} {1}",
                                         svg_number(at.x - kCross), svg_number(at.y - kCross),
                                         svg_number(at.x + kCross), svg_number(at.y + kCross))},
                       {"stroke", style.colour},
                       {"stroke-width", 1.8}});
}

// Corners in units of a dot's radius: about as large to the eye as a dot is.
std::vector<Point> corners_of(PointMark mark) {
  switch (mark) {
    case PointMark::square:
      return {{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}};
    case PointMark::triangle:
      return {{0, -1.25}, {1.2, 0.85}, {-1.2, 0.85}};
    case PointMark::diamond:
      return {{0, -1.3}, {1.2, 0}, {0, 1.3}, {-1.2, 0}};
    default:
      throw Bug("a mark without corners");
  }
}

void polygon(Svg& svg, Point at, const MarkStyle& style) {
  std::string points;
  for (Point corner : corners_of(style.mark)) {
    points += fmt::format("{}{},{}", points.empty() ? "" : " ", svg_number(at.x + kDot * corner.x),
                          svg_number(at.y + kDot * corner.y));
  }
  svg.element("polygon", {{"class", "point"},
                          {"points", points},
                          {"fill", style.hollow ? "none" : style.colour},
                          {"fill-opacity", style.hollow ? "" : svg_number(style.opacity)},
                          {"stroke", style.hollow ? style.colour : ""},
                          {"stroke-width", style.hollow ? svg_number(kOutline) : ""}});
}

void dot(Svg& svg, Point at, const MarkStyle& style) {
  svg.element("circle", {{"class", "point"},
                         {"cx", at.x},
                         {"cy", at.y},
                         {"r", kDot},
                         {"fill", style.hollow ? "none" : style.colour},
                         {"fill-opacity", style.hollow ? "" : svg_number(style.opacity)},
                         {"stroke", style.hollow ? style.colour : ""},
                         {"stroke-width", style.hollow ? svg_number(kOutline) : ""}});
}

}  // namespace

void draw_mark(Svg& svg, Point at, const MarkStyle& style) {
  switch (style.mark) {
    case PointMark::none:
      return;
    case PointMark::dot:
      return dot(svg, at, style);
    case PointMark::square:
    case PointMark::triangle:
    case PointMark::diamond:
      return polygon(svg, at, style);
    case PointMark::bar:
      return svg.line({at.x - kBar, at.y}, {at.x + kBar, at.y}, {style.colour, 2.4});
    case PointMark::cross:
      return cross(svg, at, style);
  }
  throw Bug("unknown PointMark");
}

}  // namespace sigma1
