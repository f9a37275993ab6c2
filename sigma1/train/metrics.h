// A run's numbers for any program that reads JSON: metrics.jsonl, one object a line. What a resumed
// run leaves equals what an uninterrupted one would have written, except for its rates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "sigma1/train/step_log.h"

namespace sigma1 {

struct Metric {
  std::string name;
  double value;
};

class MetricsFile {
 public:
  explicit MetricsFile(const std::filesystem::path& path, int64_t last_step = -1)
      : log_(path, last_step) {}

  // Appends {"step":…, …} in the given order; a number that JSON cannot hold (infinity, NaN) as
  // null.
  void write(int64_t step, std::span<const Metric> metrics);

 private:
  StepLog log_;
};

// One metric of a run over its steps; lines without it are passed over, and null is NaN.
struct MetricCurve {
  std::vector<double> steps, values;
};
MetricCurve read_metric(const std::filesystem::path& path, const std::string& name);

}  // namespace sigma1
