// A run's numbers for any program that reads JSON: metrics.jsonl, one object a line. What a resumed
// run leaves equals what an uninterrupted one would have written, except for its rates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "sigma1/base/file.h"

namespace sigma1 {

struct Metric {
  std::string name;
  double value;
};

class MetricsFile {
 public:
  // Keeps what the file has of steps up to `last_step`, the one resumed from, and drops the rest:
  // all of it for a new run. A last line that an end of the program cut short is dropped; any other
  // line that is not of this kind is an Error.
  explicit MetricsFile(const std::filesystem::path& path, int64_t last_step = -1);

  // Appends {"step":…, …} in the given order; a number that JSON cannot hold (infinity, NaN) as
  // null. The line is handed to the system before this returns.
  void write(int64_t step, std::span<const Metric> metrics);

 private:
  AppendFile file_;
};

// One metric of a run over its steps; lines without it are passed over, and null is NaN.
struct MetricCurve {
  std::vector<double> steps, values;
};
MetricCurve read_metric(const std::filesystem::path& path, const std::string& name);

}  // namespace sigma1
