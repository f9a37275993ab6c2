// The paper's figures, one function each: data in, SVG text out.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sigma1/numerics/quantize.h"
#include "sigma1/train/metrics.h"
#include "sigma1/train/sweep.h"

namespace sigma1 {

struct NamedCast {
  std::string name;
  Cast cast;
};

// Figure 2: signal-to-noise ratio against the scale of a normal distribution; with Appendix D's
// lines for outliers and non-outliers, Figure A.1.
std::string snr_figure(std::span<const NamedCast> casts, std::span<const double> sigmas,
                       bool with_outliers);

struct NamedCurve {
  std::string name;
  MetricCurve curve;
};

// What runs learn: a quantity against the step, each value the mean of the last `window` logged
// ones; 1 leaves them as they are.
std::string loss_curves_figure(std::span<const NamedCurve> curves, std::string_view quantity,
                               int64_t window);

// The paper's figure of its character sweep: for each combination of the keys in `by` a column of
// points, one for each combination of the other keys, at its best rate; medians; at the top those
// that diverged at every rate.
std::string sweep_figure(const SweepResult& result, std::span<const std::string> by);

// The paper's comparison of residual weightings: for each kind of context and depth, regular and
// unit-scaled models with each weighting, at their best rate. Needs the keys context, depth, method
// and residual to be swept.
std::string residual_figure(const SweepResult& result);

// Bits per character against the learning rate, a line for each combination.
std::string ladder_figure(const SweepResult& result);

}  // namespace sigma1
