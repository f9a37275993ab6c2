// The paper's figures, one function each: data in, SVG text out.
#pragma once

#include <span>
#include <string>

#include "sigma1/numerics/quantize.h"

namespace sigma1 {

struct NamedCast {
  std::string name;
  Cast cast;
};

// Figure 2: signal-to-noise ratio against the scale of a normal distribution; with Appendix D's
// lines for outliers and non-outliers, Figure A.1.
std::string snr_figure(std::span<const NamedCast> casts, std::span<const double> sigmas,
                       bool with_outliers);

}  // namespace sigma1
