// Tensors of known numbers, and what the figures of tensor scales show of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sigma1/runtime/probe.h"
#include "tests/report/svg_reader.h"

namespace sigma1 {

inline TensorStats stats_of(const std::vector<float>& numbers) {
  TensorStats stats;
  stats.add(numbers);
  return stats;
}

inline TensorScale tensor_of(const std::string& name, TensorRole role,
                             const std::vector<float>& numbers) {
  return {.name = name, .role = role, .format = "e4m3", .stats = stats_of(numbers)};
}

// Where text of any anchor, upright or turned by a quarter, may reach.
inline Box box_of(const Element& text) {
  double size = text.number("font-size"), width = text_width({text.content}, size);
  double x = text.number("x"), y = text.number("y");
  std::string anchor = text.attribute("text-anchor");
  double before = anchor == "end" ? width : anchor == "middle" ? width / 2 : 0;
  if (text.attribute("transform").empty()) return {x - before, y - 0.8 * size, width, size};
  return {x - 0.8 * size, y + before - width, size, width};
}

// Estimated widths are too wide, those of raised text most; what is left has to fit.
inline Box surely_covered(const Element& text) {
  Box box = box_of(text);
  return {box.x + 0.1 * box.width, box.y + 0.1 * box.height, 0.8 * box.width, 0.8 * box.height};
}

inline bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

inline void expect_legible(const std::string& svg) {
  Element page = with_tag(svg, "svg").at(0);
  auto texts = with_tag(svg, "text");
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_GE(texts[i].number("font-size"), 9) << texts[i].content;
    Box box = surely_covered(texts[i]);
    EXPECT_TRUE(box.x >= 0 && box.right() <= page.number("width")) << texts[i].content;
    EXPECT_TRUE(box.y >= 0 && box.bottom() <= page.number("height")) << texts[i].content;
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(overlap(box, surely_covered(texts[j])))
          << texts[i].content << " over " << texts[j].content;
    }
  }
}

// One after another: the columns of a figure, or its rows.
inline std::vector<std::vector<Element>> cells_by_tensor(const std::string& svg) {
  std::vector<std::vector<Element>> tensors;
  for (const Element& element : SvgParser(svg).parse()) {
    if (element.attribute("class") == "tensor") tensors.emplace_back();
    if (element.attribute("class") == "cell") tensors.at(tensors.size() - 1).push_back(element);
  }
  return tensors;
}

inline double middle(const Element& cell) { return cell.number("y") + cell.number("height") / 2; }

}  // namespace sigma1
