#include "sigma1/train/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "sigma1/base/error.h"

namespace sigma1 {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void MetricsFile::write(int64_t step, std::span<const Metric> metrics) {
  Json line = {{"step", step}};
  for (const Metric& metric : metrics) {
    if (line.contains(metric.name)) throw Bug("metric {} is given twice", metric.name);
    line[metric.name] = metric.value;
  }
  log_.append(line.dump());
}

MetricCurve read_metric(const fs::path& path, const std::string& name) {
  MetricCurve curve;
  for (const StepLine& line : read_step_log(path)) {
    Json value = Json::parse(line.json).value(name, Json(false));
    if (!value.is_number() && !value.is_null()) continue;
    curve.steps.push_back(static_cast<double>(line.step));
    curve.values.push_back(value.is_null() ? NAN : value.get<double>());
  }
  return curve;
}

}  // namespace sigma1
