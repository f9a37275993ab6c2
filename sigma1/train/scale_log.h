// What probes found, as JSON: a run's scales.jsonl, and what `sigma1 scales --json` prints.
#pragma once

#include <span>
#include <string>

#include "sigma1/runtime/probe.h"

namespace sigma1 {

enum class HistogramJson { without, with };

// One object: {"name":…, "role":…, "format":…, "count":…, "mean":…, "std":…, "rms":…, "abs_max":…,
// "abs_min":…, "zero":…, "subnormal":…, "saturated":…, "nonfinite":…, "lost":…}; with a histogram
// also "first_exponent" and "histogram": how many numbers lie in [2^e, 2^(e+1)) from there on.
std::string scale_json(const TensorScale& tensor, HistogramJson histogram);

// A line of scales.jsonl: {"step":…, "tensors":[…]}, histograms included.
std::string scales_line(int64_t step, std::span<const TensorScale> tensors);

}  // namespace sigma1
