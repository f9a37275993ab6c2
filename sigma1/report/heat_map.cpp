#include "sigma1/report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/report/axis.h"
#include "sigma1/report/palette.h"

namespace sigma1 {
namespace {

constexpr double kSpecial = 12, kSubnormalBin = 20, kGap = 3;
constexpr double kLegendFontSize = 10;
constexpr double kFaintest = 0.05;  // as a square root of a share

// After ColorBrewer's Blues, from white; few numbers are told from none at once.
constexpr std::array<std::array<double, 3>, 6> kRamp = {
    {{255, 255, 255}, {198, 219, 239}, {107, 174, 214}, {33, 113, 181}, {8, 69, 148}, {4, 32, 80}}};

std::string ramp_colour(double position) {
  double place = position * (kRamp.size() - 1);
  auto lower = std::min(static_cast<size_t>(place), kRamp.size() - 2);
  double part = place - static_cast<double>(lower);
  std::string colour = "#";
  for (size_t i = 0; i < 3; ++i) {
    double value = kRamp[lower][i] + part * (kRamp[lower + 1][i] - kRamp[lower][i]);
    colour += fmt::format("{:02x}", static_cast<int>(std::lround(value)));
  }
  return colour;
}

}  // namespace

double MagnitudeAxis::special_pixels(Subnormals subnormals) {
  return 3 * kSpecial + 3 * kGap + (subnormals == Subnormals::one_bin ? kSubnormalBin : 0);
}

MagnitudeAxis::MagnitudeAxis(Subnormals subnormals, double binade_pixels)
    : binade_pixels_(binade_pixels) {
  FloatFormat fp16 = find_format("fp16").format;
  least_ = fp16.min_exponent() - fp16.mantissa_bits;
  first_binade_ = subnormals == Subnormals::one_bin ? fp16.min_exponent() : least_;
  last_binade_ = fp16.max_exponent();
  auto add = [this](Text label, double gap, double size) {
    double from = bins_.empty() ? 0 : length() + gap;
    bins_.push_back({std::move(label), from, from + size});
  };
  Text least = power_label(2, least_);
  add({"zero"}, 0, kSpecial);
  add({"< " + least.body, least.power}, kGap, kSpecial);
  if (first_binade_ > least_) add({"subnormal"}, kGap, kSubnormalBin);
  for (int exponent = first_binade_; exponent <= last_binade_; ++exponent) {
    add({}, exponent == least_ ? kGap : 0, binade_pixels);
  }
  add({"inf"}, kGap, kSpecial);
}

size_t MagnitudeAxis::bin_of(int exponent) const {
  if (exponent < least_) return 1;
  if (exponent > last_binade_) return bins_.size() - 1;
  int first = first_binade_ > least_ ? 3 : 2;
  return static_cast<size_t>(std::max(2, first + exponent - first_binade_));
}

double MagnitudeAxis::at(double magnitude) const {
  double exponent = std::log2(magnitude);
  if (!(exponent >= least_ && exponent <= last_binade_ + 1)) {
    throw Bug("magnitude axis: {} is not in FP16's range", magnitude);
  }
  if (exponent >= first_binade_) {
    return bins_[bin_of(first_binade_)].from + (exponent - first_binade_) * binade_pixels_;
  }
  const MagnitudeBin& subnormals = bins_[2];
  return subnormals.from +
         (subnormals.to - subnormals.from) * (exponent - least_) / (first_binade_ - least_);
}

std::vector<double> MagnitudeAxis::shares(const TensorStats& stats) const {
  constexpr int kBias = 127;
  std::vector<double> shares(bins_.size());
  if (stats.count == 0) return shares;
  shares.front() = static_cast<double>(stats.zeros);
  shares.back() = static_cast<double>(stats.nonfinite);
  for (size_t i = 0; i < stats.binades.size(); ++i) {
    shares[bin_of(static_cast<int>(i) - kBias)] += static_cast<double>(stats.binades[i]);
  }
  for (double& share : shares) share /= static_cast<double>(stats.count);
  return shares;
}

std::string shade(double share) {
  return ramp_colour(share > 0 ? std::clamp(std::sqrt(share), kFaintest, 1.0) : 0);
}

void draw_cell(Svg& svg, const Box& box, double share) {
  if (!(share > 0)) return;
  svg.element("rect", {{"class", "cell"},
                       {"x", box.x},
                       {"y", box.y},
                       {"width", box.width},
                       {"height", box.height},
                       {"fill", shade(share)}});
}

void draw_limit(Svg& svg, Point from, Point to, const char* colour, const char* dash) {
  constexpr double kLine = 1.3, kCasing = 2.6;
  svg.line(from, to, {"#ffffff", kCasing, "", "", 0.6});
  svg.line(from, to, {colour, kLine, dash, "limit"});
}

void draw_shade_legend(Svg& svg, Point at) {
  constexpr int kSteps = 48;
  constexpr double kPad = 15;  // half of the last label
  constexpr double kBar = ShadeLegend::kWidth - 2 * kPad, kThickness = 8;
  double left = at.x + kPad, top = at.y + kLegendFontSize + 2;
  svg.text({left, at.y + kLegendFontSize - 1}, kLegendFontSize, {"share of a tensor's numbers"},
           {{"fill", kInk}});
  svg.open("g", {{"shape-rendering", "crispEdges"}});
  for (int i = 0; i < kSteps; ++i) {
    double root = (i + 0.5) / kSteps, start = kBar * i / kSteps;
    svg.element("rect", {{"class", "shade"},
                         {"x", left + start},
                         {"y", top},
                         {"width", kBar - start},  // under the next ones, or seams would show
                         {"height", kThickness},
                         {"fill", shade(root * root)}});
  }
  svg.close();
  for (double percent : {0.0, 1.0, 10.0, 25.0, 50.0, 100.0}) {
    double x = left + kBar * std::sqrt(percent / 100);
    svg.line({x, top + kThickness}, {x, top + kThickness + 3}, {kInk, 0.6});
    svg.text({x, top + kThickness + kLegendFontSize + 3}, kLegendFontSize,
             {percent == 0 ? "0" : fmt::format("{}%", percent)},
             {{"text-anchor", "middle"}, {"fill", kInk}});
  }
}

}  // namespace sigma1
