#include "sigma1/report/recorded_scales.h"

#include <cmath>

#include "sigma1/report/json_lines.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

void read_histogram(const JsonLine& line, TensorStats& stats) {
  constexpr int64_t kExponentBias = 127;
  int64_t at = line.whole_number("first_exponent") + kExponentBias;
  for (const auto& count : line.array("histogram")) {
    bool fits =
        count.is_number_integer() && at >= 0 && at < static_cast<int64_t>(stats.binades.size());
    if (!fits) line.fail("a histogram of numbers from 2^-127 to 2^128", count);
    stats.binades[static_cast<size_t>(at++)] = count.get<int64_t>();
  }
}

// Shares become counts again, and means sums.
TensorScale read_scale(const JsonLine& line) {
  TensorScale scale{.name = line.text("name"), .format = line.text("format")};
  auto role = find_role(line.text("role"));
  if (!role) line.fail("activation, weight, gradx or gradw", line.text("role"));
  scale.role = *role;
  TensorStats& stats = scale.stats;
  stats.count = line.whole_number("count");
  auto part = [&](const char* key, int64_t whole) {
    return std::llround(line.number(key) * static_cast<double>(whole));
  };
  stats.zeros = part("zero", stats.count);
  stats.nonfinite = part("nonfinite", stats.count);
  auto finite = static_cast<double>(stats.count - stats.nonfinite);
  stats.sum = line.number("mean") * finite;
  stats.sum_squares = line.number("rms") * line.number("rms") * finite;
  stats.abs_min = static_cast<float>(line.number("abs_min"));
  stats.abs_max = static_cast<float>(line.number("abs_max"));
  read_histogram(line, stats);
  scale.loss.subnormal = part("subnormal", stats.count);
  scale.loss.beyond = part("saturated", stats.count);
  scale.loss.to_zero = part("lost", stats.count - stats.zeros) - scale.loss.beyond;
  return scale;
}

}  // namespace

std::vector<RecordedScales> recorded_scales(const fs::path& run) {
  fs::path path = run / "scales.jsonl";
  if (!fs::is_regular_file(path)) {
    throw Error("{}: expected a run's folder, and there is no scales.jsonl in it", run.string());
  }
  std::vector<RecordedScales> records;
  read_json_lines(path, [&](const JsonLine& line) {
    RecordedScales record{line.whole_number("step"), {}};
    for (const auto& tensor : line.array("tensors")) {
      record.tensors.push_back(read_scale(line.inner(tensor)));
    }
    if (records.size() > 1) records.pop_back();
    records.push_back(std::move(record));
  });
  if (records.empty())
    throw Error("{}: expected scales of tensors, and it has none", path.string());
  return records;
}

}  // namespace sigma1
