// Colours and marks that all figures share, so that they look like one paper's.
#pragma once

#include <array>
#include <string>

#include "sigma1/report/svg.h"

namespace sigma1 {

inline constexpr const char* kInk = "#222222";
inline constexpr const char* kGrid = "#e2e2e2";

// Okabe and Ito's palette, which colour-blind readers can tell apart; yellow, weak on white, last.
inline constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                        "#e69f00", "#56b4e9", "#000000", "#f0e442"};

enum class PointMark { none, dot, square, triangle, diamond, bar, cross };

struct MarkStyle {
  PointMark mark = PointMark::none;
  std::string colour = {};
  double opacity = 1;
  bool hollow = false;  // an outline, for the marks that have an inside
};

void draw_mark(Svg& svg, Point at, const MarkStyle& style);

}  // namespace sigma1
