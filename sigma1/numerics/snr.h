// How much of a normal distribution survives a cast: the paper's Figure 2, and Appendices C and D.
#pragma once

#include <string>
#include <vector>

#include "sigma1/numerics/quantize.h"

namespace sigma1 {

// E[x²] / E[(q(x) − x)²] for x ~ N(0, σ²), where q is the cast. By quadrature over the format's own
// intervals, so exact to more than four digits; a magnitude beyond the largest saturates.
double normal_snr(const Cast& cast, double sigma);

// Appendix C and D, computed here beside what the paper prints.
struct OutlierFinding {
  std::string quantity;
  double ours;
  double paper;
  std::string assumption;
};
std::vector<OutlierFinding> outlier_findings();

// Appendix D's setting: outliers in activations of a 6.7B-parameter model.
inline constexpr double kMedianOutlier = 60, kMaxOutlier = 3 * kMedianOutlier;
// INT8 scaled so that `outlier` takes its largest value.
Cast int8_scaled_for(double outlier, Rounding rounding = Rounding::nearest_even);

}  // namespace sigma1
