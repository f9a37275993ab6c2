#include "sigma1/train/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

int64_t step_of_line(std::string_view line, const fs::path& path, int number) {
  Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer())
    throw Error("{}:{}: expected a JSON object with a step, got '{}'", path.string(), number,
                line.substr(0, 80));
  return object["step"].get<int64_t>();
}

std::string lines_up_to(int64_t last_step, std::string_view content, const fs::path& path) {
  std::string kept;
  int number = 0;
  while (true) {
    size_t end = content.find('\n');
    if (end == std::string_view::npos) return kept;
    std::string_view line = content.substr(0, end + 1);
    if (step_of_line(line.substr(0, end), path, ++number) <= last_step) kept += line;
    content.remove_prefix(line.size());
  }
}

fs::path with_lines_up_to(int64_t last_step, const fs::path& path) {
  if (!fs::exists(path)) return path;
  std::string content = read_file(path);
  std::string kept = last_step < 0 ? "" : lines_up_to(last_step, content, path);
  if (kept.size() != content.size()) write_file(path, kept);
  return path;
}

}  // namespace

MetricsFile::MetricsFile(const fs::path& path, int64_t last_step)
    : file_(with_lines_up_to(last_step, path)) {}

void MetricsFile::write(int64_t step, std::span<const Metric> metrics) {
  Json line = {{"step", step}};
  for (const Metric& metric : metrics) {
    if (line.contains(metric.name)) throw Bug("metric {} is given twice", metric.name);
    line[metric.name] = metric.value;
  }
  file_.append(line.dump() + "\n");
  file_.flush();
}

MetricCurve read_metric(const fs::path& path, const std::string& name) {
  MetricCurve curve;
  int number = 0;
  for (const std::string& line : split(read_file(path.string()), '\n')) {
    ++number;
    if (line.empty()) continue;
    auto step = static_cast<double>(step_of_line(line, path, number));
    Json value = Json::parse(line).value(name, Json(false));
    if (!value.is_number() && !value.is_null()) continue;
    curve.steps.push_back(step);
    curve.values.push_back(value.is_null() ? NAN : value.get<double>());
  }
  return curve;
}

}  // namespace sigma1
