// Figure 1. What is common to both halves, the scales above all, is worked out once and drawn
// twice, so that the eye can compare them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/report/axis.h"
#include "sigma1/report/chart_layout.h"
#include "sigma1/report/heat_map.h"
#include "sigma1/report/palette.h"
#include "sigma1/report/scale_figures.h"

namespace sigma1 {
namespace {

constexpr double kWidth = 720, kLeft = 68, kBetween = 18, kRight = 74;
constexpr double kNameFont = 11, kNameGap = 18,
                 kNarrowest = 13;  // a column that has room for its name
constexpr double kDots = 150, kBinade = 6.5, kBetweenParts = 16;

MarkStyle mark_of(TensorRole role) {
  constexpr std::array kMarks = {PointMark::dot, PointMark::square, PointMark::triangle,
                                 PointMark::diamond};
  auto index = static_cast<size_t>(role);
  return {kMarks[index], kColours[index]};
}

std::string name_of(const TensorScale& tensor) {
  return is_gradient(tensor.role) ? "∇ " + tensor.name : tensor.name;
}

// Whole powers of two around every σ, and 1.
Axis sigma_axis(std::span<const TensorScale> regular, std::span<const TensorScale> unit) {
  double low = 0, high = 0;
  for (std::span<const TensorScale> half : {regular, unit}) {
    for (const TensorScale& tensor : half) {
      double exponent = std::log2(tensor.stats.std_dev());
      if (!std::isfinite(exponent)) continue;
      low = std::min(low, std::floor(exponent));
      high = std::max(high, std::ceil(exponent));
    }
  }
  return {.min = std::exp2(low - 1), .max = std::exp2(high + 1), .base = 2};
}

class FfnPainter {
 public:
  FfnPainter(std::span<const TensorScale> regular, std::span<const TensorScale> unit)
      : regular_(regular),
        unit_(unit),
        bins_(MagnitudeAxis::Subnormals::by_binade, kBinade),
        column_(std::max(kNarrowest, (kWidth - kLeft - kBetween - kRight) / 2 / columns())),
        top_(kMargin + ShadeLegend::kHeight + kTitleFont + 14),
        sigma_(sigma_axis(regular, unit), top_ + kDots, top_),
        map_(top_ + kDots + kBetweenParts),
        svg_(width(), height()) {}

  std::string paint() && {
    legend();
    half(kLeft, regular_, "regular");
    half(kLeft + half_width() + kBetween, unit_, "unit scaling");
    scales();
    return std::move(svg_).finish();
  }

 private:
  double columns() const { return static_cast<double>(std::max(regular_.size(), unit_.size())); }
  double half_width() const { return column_ * columns(); }
  double width() const { return kLeft + 2 * half_width() + kBetween + kRight; }

  double height() const {
    double longest = 0;
    for (std::span<const TensorScale> half : {regular_, unit_}) {
      for (const TensorScale& tensor : half) {
        longest = std::max(longest, text_width({name_of(tensor)}, kNameFont));
      }
    }
    return map_ + bins_.length() + kNameGap + longest + kMargin;
  }

  // Exponents grow upwards.
  double map_y(double along) const { return map_ + bins_.length() - along; }

  void legend() {
    double x = kLeft, y = kMargin + ShadeLegend::kHeight / 2;
    for (TensorRole role : kTensorRoles) {
      std::string name(to_string(role));
      draw_mark(svg_, {x + 4, y}, mark_of(role));
      svg_.text({x + 13, y + 0.36 * kLegendFont}, kLegendFont, {name},
                {{"class", "legend"}, {"fill", kInk}});
      x += 13 + text_width({name}, kLegendFont) + 14;
    }
    draw_shade_legend(svg_, {width() - kRight - ShadeLegend::kWidth + 15, kMargin});
  }

  void half(double left, std::span<const TensorScale> tensors, const char* title) {
    double right = left + half_width();
    svg_.text(
        {(left + right) / 2, top_ - 8}, kTitleFont, {title},
        {{"class", "title"}, {"text-anchor", "middle"}, {"font-weight", "bold"}, {"fill", kInk}});
    grid(left, right);
    for (size_t i = 0; i < tensors.size(); ++i) {
      double x = left + column_ * static_cast<double>(i);
      sigma_dot(x + column_ / 2, tensors[i]);
      histogram(x, tensors[i].stats);
      name(x + column_ / 2, tensors[i]);
    }
    for (const Limit& limit : limits()) {
      draw_limit(svg_, {left, limit.y}, {right, limit.y}, limit.style.colour, limit.style.dash);
    }
    frame(left, right);
  }

  void grid(double left, double right) {
    for (const Tick& tick : ticks_of(sigma_)) {
      if (tick.label.body.empty()) continue;
      double y = sigma_.at(tick.value);
      svg_.line({left, y}, {right, y}, {kGrid, 0.8});
    }
    double unit = sigma_.at(1);
    svg_.line({left, unit}, {right, unit}, {kInk, 1, "", "unit-sigma"});
  }

  // Hangs from σ = 1, so that its length says how far off unit scale a tensor is.
  void sigma_dot(double x, const TensorScale& tensor) {
    double y = sigma_.at(tensor.stats.std_dev());
    if (!std::isfinite(y)) return;
    MarkStyle style = mark_of(tensor.role);
    svg_.line({x, sigma_.at(1)}, {x, y}, {style.colour, 1.2});
    draw_mark(svg_, {x, y}, style);
  }

  void histogram(double x, const TensorStats& stats) {
    std::vector<double> shares = bins_.shares(stats);
    svg_.open("g", {{"class", "tensor"}, {"shape-rendering", "crispEdges"}});
    for (size_t i = 0; i < shares.size(); ++i) {
      const MagnitudeBin& bin = bins_.bins()[i];
      draw_cell(svg_, {x + 1, map_y(bin.to), column_ - 2, bin.to - bin.from}, shares[i]);
    }
    svg_.close();
  }

  void name(double x, const TensorScale& tensor) {
    draw_mark(svg_, {x, map_y(0) + 9}, mark_of(tensor.role));
    Point at = {x + 0.36 * kNameFont, map_y(0) + kNameGap};
    svg_.text(at, kNameFont, {name_of(tensor)},
              {{"class", "name"}, {"text-anchor", "end"}, {"fill", kInk}, turned(at, -90)});
  }

  struct Limit {
    FormatStyle style;
    double y;
    std::string label;
  };

  std::vector<Limit> limits() const {
    std::vector<Limit> limits;
    for (const FormatStyle& style : {kE4m3Style, kE5m2Style}) {
      FloatFormat format = find_format(style.format).format;
      // The largest exponent's binade ends where the next would start.
      double largest = bins_.at(std::ldexp(1.0, format.max_exponent() + 1));
      double smallest = bins_.at(std::ldexp(1.0, format.min_exponent()));
      limits.push_back({style, map_y(largest), fmt::format("{} max", style.label)});
      limits.push_back({style, map_y(smallest), fmt::format("{} min", style.label)});
    }
    return limits;
  }

  void frame(double left, double right) {
    for (Box box :
         {Box{left, top_, right - left, kDots}, Box{left, map_, right - left, bins_.length()}}) {
      svg_.element("rect", {{"class", "frame"},
                            {"x", box.x},
                            {"y", box.y},
                            {"width", box.width},
                            {"height", box.height},
                            {"fill", "none"},
                            {"stroke", kInk}});
    }
  }

  void scales() {
    for (const Tick& tick : ticks_of(sigma_)) tick_at(sigma_.at(tick.value), tick.label);
    constexpr int kStep = 4;
    // The ends of the range are beside the bins for what lies outside, which say so.
    for (int exponent = bins_.first_binade() + kStep; exponent + kStep <= bins_.last_binade() + 1;
         exponent += kStep) {
      tick_at(map_y(bins_.at(std::ldexp(1.0, exponent))), power_label(2, exponent));
    }
    for (const MagnitudeBin& bin : bins_.bins()) {
      if (!bin.label.body.empty()) tick_at(map_y((bin.from + bin.to) / 2), bin.label);
    }
    right_label("σ = 1", sigma_.at(1), kInk);
    for (const Limit& limit : limits()) right_label(limit.label, limit.y, limit.style.colour);
    axis_label("σ", top_ + kDots / 2);
    axis_label("exponent", map_ + bins_.length() / 2);
  }

  void tick_at(double y, const Text& label) {
    svg_.line({kLeft - (label.body.empty() ? 3 : 5), y}, {kLeft, y}, {kInk, 0.8});
    svg_.text({kLeft - 8, y + 0.36 * kTickFont}, kTickFont, label,
              {{"class", "y-tick"}, {"text-anchor", "end"}, {"fill", kInk}});
  }

  void right_label(const std::string& text, double y, const char* colour) {
    svg_.text({width() - kRight + 6, y + 0.36 * kMarkFont}, kMarkFont, {text},
              {{"class", "mark"}, {"fill", colour}});
  }

  void axis_label(const char* text, double middle) {
    Point at = {kMargin + 2, middle};
    svg_.text(at, kLabelFont, {text}, {{"text-anchor", "middle"}, {"fill", kInk}, turned(at, -90)});
  }

  std::span<const TensorScale> regular_, unit_;
  MagnitudeAxis bins_;
  double column_, top_;
  AxisScale sigma_;
  double map_;
  Svg svg_;
};

}  // namespace

std::string ffn_figure(std::span<const TensorScale> regular, std::span<const TensorScale> unit) {
  if (regular.empty() && unit.empty()) {
    throw Error("figure: nothing to draw, expected at least one tensor");
  }
  return FfnPainter(regular, unit).paint();
}

}  // namespace sigma1
