// A run's folder as one JSON object, which is what the page of a report draws from: read whole,
// checked, and cut to what a page can hold.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sigma1/train/metrics.h"

namespace sigma1 {

// A curve of at most `most` points: the means of stretches of equally many points, and the last
// point as it is. What is not finite is left out of a mean; a stretch of only such is NaN.
MetricCurve reduce_curve(const MetricCurve& curve, size_t most);

// Which of `size` things to keep when at most `most` can be: the first, the last, and evenly spaced
// ones between them. `most` is at least 2.
std::vector<size_t> spread_indices(size_t size, size_t most);

// JSON with: name, config, machine, results (what a table shows), train, valid_loss, valid_bpc
// (curves), formats, scales and events. machine, scales and events are null when the run has no
// such file.
std::string run_data(const std::filesystem::path& folder, const std::string& name);

}  // namespace sigma1
