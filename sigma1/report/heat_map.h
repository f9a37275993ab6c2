// Where the numbers of many tensors lie, seen at once: each tensor a row or column of shaded cells
// over FP16's magnitudes.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sigma1/report/svg.h"
#include "sigma1/runtime/probe.h"

namespace sigma1 {

inline constexpr std::array kTensorRoles = {TensorRole::activation, TensorRole::weight,
                                            TensorRole::gradx, TensorRole::gradw};

[[nodiscard]] constexpr bool is_gradient(TensorRole role) {
  return role == TensorRole::gradx || role == TensorRole::gradw;
}

struct MagnitudeBin {
  Text label = {};          // empty for a binade
  double from = 0, to = 0;  // pixels from the start of the axis
};

// Zero; what is not zero but below FP16's least number; FP16's binades; infinity, with all that is
// 2^16 or more and NaN. FP16's subnormals are a bin each binade or, as in the paper's appendix,
// one.
class MagnitudeAxis {
 public:
  enum class Subnormals { by_binade, one_bin };

  MagnitudeAxis(Subnormals subnormals, double binade_pixels);

  const std::vector<MagnitudeBin>& bins() const { return bins_; }
  double length() const { return bins_.back().to; }
  int first_binade() const { return first_binade_; }
  int last_binade() const { return last_binade_; }

  // In pixels from the start; needs a magnitude of 2^-24 to 2^16.
  double at(double magnitude) const;

  // The share of a tensor's numbers in each bin; zeros for a tensor that has none.
  std::vector<double> shares(const TensorStats& stats) const;

  // The bins that are no binades take this much whatever the size of a binade is.
  static double special_pixels(Subnormals subnormals);

 private:
  size_t bin_of(int exponent) const;

  int least_, first_binade_, last_binade_;  // exponents
  double binade_pixels_;
  std::vector<MagnitudeBin> bins_;
};

// One hue, darker for more. By the square root of the share, because a normal distribution has at
// most a third of its numbers in a bin, and any number at all is seen.
std::string shade(double share);

void draw_cell(Svg& svg, const Box& box, double share);

// How the limits of the 8-bit formats are drawn over the cells.
struct FormatStyle {
  const char* format;
  const char* label;
  const char* colour;
  const char* dash;
};
inline constexpr FormatStyle kE4m3Style{"e4m3", "E4M3", "#d55e00", "5 3"};
inline constexpr FormatStyle kE5m2Style{"e5m2", "E5M2", "#008060", "5 3"};

// Cased in white, for it has to be seen on the darkest cell too.
void draw_limit(Svg& svg, Point from, Point to, const char* colour, const char* dash);

struct ShadeLegend {
  static constexpr double kWidth = 200, kHeight = 34;
};

// With its upper left corner there.
void draw_shade_legend(Svg& svg, Point at);

}  // namespace sigma1
