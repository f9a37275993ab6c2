#include "sigma1/report/run_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "sigma1/base/error.h"
#include "sigma1/numerics/float_format.h"
#include "sigma1/report/json_lines.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// More of these could neither be told apart on a page nor loaded quickly.
constexpr size_t kMostPoints = 1500, kMostMeasurements = 24, kMostEvents = 1000;

// Six digits are more than a chart can show, and half the size of all of them.
Json rounded(double value) {
  return std::isfinite(value) ? Json(std::stod(fmt::format("{:.6g}", value))) : Json();
}

Json rounded(const std::vector<double>& values) {
  Json list = Json::array();
  for (double value : values) list.push_back(rounded(value));
  return list;
}

struct Metrics {
  int64_t steps = 0;
  MetricCurve loss, valid_loss, valid_bpc;
  std::vector<double> rates;  // tokens a second
};

void add_point(MetricCurve& curve, const JsonLine& line, const std::string& name) {
  if (!line.has(name)) return;
  curve.values.push_back(line.number(name));
  curve.steps.push_back(static_cast<double>(line.whole_number("step")));
}

// In one pass: read_metric would parse the file once for each of them.
Metrics read_metrics(const fs::path& path) {
  Metrics metrics;
  read_json_lines(path, [&](const JsonLine& line) {
    metrics.steps = std::max(metrics.steps, line.whole_number("step"));
    add_point(metrics.loss, line, "loss");
    add_point(metrics.valid_loss, line, "valid_loss");
    add_point(metrics.valid_bpc, line, "valid_bpc");
    double rate = line.number("tokens_per_s");
    if (std::isfinite(rate)) metrics.rates.push_back(rate);
  });
  return metrics;
}

double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double last_of(const MetricCurve& curve) {
  return curve.values.empty() ? NAN : curve.values.back();
}

double least_of(const MetricCurve& curve) {
  double least = NAN;
  for (double value : curve.values) least = std::fmin(least, value);  // passes over NaN
  return least;
}

Json results_json(const Metrics& metrics) {
  return {{"steps", metrics.steps},
          {"final_loss", rounded(last_of(metrics.loss))},
          {"best_bpc", rounded(least_of(metrics.valid_bpc))},
          {"last_bpc", rounded(last_of(metrics.valid_bpc))},
          {"tokens_per_s", rounded(median(metrics.rates))}};
}

Json curve_json(const MetricCurve& curve) {
  MetricCurve reduced = reduce_curve(curve, kMostPoints);
  auto is_not_finite = [](double value) { return !std::isfinite(value); };
  return {{"steps", rounded(reduced.steps)},
          {"values", rounded(reduced.values)},
          {"logged", curve.steps.size()},
          {"not_finite", std::ranges::count_if(curve.values, is_not_finite)}};
}

constexpr std::array kColumns = {"count",     "mean",      "std",  "rms",
                                 "abs_min",   "abs_max",   "zero", "subnormal",
                                 "saturated", "nonfinite", "lost"};

using Formats = std::map<std::string, NamedFormat>;

// Numbers without their names, which would be most of the page.
Json measurement_json(const JsonLine& tensor, Formats& formats) {
  std::string format = tensor.has("format") ? tensor.text("format") : "fp32";
  if (!formats.contains(format)) {
    try {
      formats.emplace(format, find_format(format));
    } catch (const Error&) {
      tensor.fail("a number format", format);
    }
  }
  std::vector<double> values;
  for (const char* column : kColumns) values.push_back(tensor.number(column));
  Json histogram = tensor.has("histogram") ? tensor.array("histogram") : Json::array();
  for (const Json& count : histogram) {
    if (!count.is_number_unsigned()) tensor.fail("counts in a histogram", count);
  }
  return {{"format", format},
          {"values", rounded(values)},
          {"first", histogram.empty() ? 0 : tensor.whole_number("first_exponent")},
          {"histogram", std::move(histogram)}};
}

struct MeasuredTensor {
  std::string role, name;
  std::vector<Json> measurements;  // null at steps at which it was not measured
};

// In the order in which they are first met, which is the order of execution.
class MeasuredTensors {
 public:
  void add(const JsonLine& line, Formats& formats) {
    steps_.push_back(line.whole_number("step"));
    for (const Json& entry : line.array("tensors")) {
      JsonLine tensor = line.inner(entry);
      std::pair<std::string, std::string> key{tensor.text("role"), tensor.text("name")};
      auto [found, is_new] = indices_.emplace(key, tensors_.size());
      if (is_new) tensors_.push_back({key.first, key.second, {}});
      tensors_[found->second].measurements.resize(steps_.size());
      tensors_[found->second].measurements.back() = measurement_json(tensor, formats);
    }
  }

  Json json() && {
    std::vector<size_t> kept = spread_indices(steps_.size(), kMostMeasurements);
    Json steps = Json::array(), tensors = Json::array();
    for (size_t index : kept) steps.push_back(steps_[index]);
    for (MeasuredTensor& tensor : tensors_) {
      tensor.measurements.resize(steps_.size());
      Json measurements = Json::array();
      for (size_t index : kept) measurements.push_back(std::move(tensor.measurements[index]));
      tensors.push_back({{"name", std::move(tensor.name)},
                         {"role", std::move(tensor.role)},
                         {"measurements", std::move(measurements)}});
    }
    return {{"measured", steps_.size()},
            {"steps", std::move(steps)},
            {"columns", kColumns},
            {"tensors", std::move(tensors)}};
  }

 private:
  std::vector<int64_t> steps_;
  std::vector<MeasuredTensor> tensors_;
  std::map<std::pair<std::string, std::string>, size_t> indices_;
};

Json scales_json(const fs::path& path, Formats& formats) {
  if (!fs::exists(path)) return nullptr;
  MeasuredTensors tensors;
  read_json_lines(path, [&](const JsonLine& line) { tensors.add(line, formats); });
  return std::move(tensors).json();
}

Json formats_json(const Formats& formats) {
  Json json = Json::object();
  for (const auto& [name, named] : formats) {
    json[name] = {{"max", named.format.max()},
                  {"min_normal", named.format.min_normal()},
                  {"min_subnormal", named.format.min_subnormal()}};
  }
  return json;
}

// The newest are kept: what a run died of comes last.
Json events_json(const fs::path& path) {
  if (!fs::exists(path)) return nullptr;
  std::vector<Json> events;
  read_json_lines(path, [&](const JsonLine& line) {
    line.whole_number("step");
    line.text("kind");
    for (const char* key : {"tensor", "role", "format", "text"}) {
      if (line.has(key)) line.text(key);
    }
    line.number("share");
    events.push_back(line.json());
  });
  size_t dropped = events.size() - std::min(events.size(), kMostEvents);
  events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(dropped));
  return {{"total", dropped + events.size()}, {"newest", std::move(events)}};
}

void expect_run(const fs::path& folder) {
  for (const char* file : {"config.json", "metrics.jsonl"}) {
    if (!fs::is_regular_file(folder / file)) {
      throw Error("{}: expected a run's folder, and there is no {} in it", folder.string(), file);
    }
  }
}

}  // namespace

MetricCurve reduce_curve(const MetricCurve& curve, size_t most) {
  if (curve.steps.size() <= most) return curve;
  MetricCurve reduced;
  size_t size = curve.steps.size() - 1, stretches = most - 1;  // and the last one
  for (size_t i = 0; i < stretches; ++i) {
    size_t begin = size * i / stretches, end = size * (i + 1) / stretches;
    double step = 0, value = 0, finite = 0;
    for (size_t k = begin; k < end; ++k) {
      step += curve.steps[k] / static_cast<double>(end - begin);
      if (!std::isfinite(curve.values[k])) continue;
      value += curve.values[k];
      finite += 1;
    }
    reduced.steps.push_back(step);
    reduced.values.push_back(finite > 0 ? value / finite : NAN);
  }
  reduced.steps.push_back(curve.steps.back());
  reduced.values.push_back(curve.values.back());
  return reduced;
}

std::vector<size_t> spread_indices(size_t size, size_t most) {
  size_t kept = std::min(size, most);
  std::vector<size_t> indices;
  for (size_t i = 0; i < kept; ++i) indices.push_back(kept < 2 ? 0 : i * (size - 1) / (kept - 1));
  return indices;
}

std::string run_data(const fs::path& folder, const std::string& name) {
  expect_run(folder);
  Metrics metrics = read_metrics(folder / "metrics.jsonl");
  Formats formats;
  Json scales = scales_json(folder / "scales.jsonl", formats);
  fs::path machine = folder / "machine.json";
  Json run = {{"name", name},
              {"config", read_json_object(folder / "config.json")},
              {"machine", fs::exists(machine) ? read_json_object(machine) : Json()},
              {"results", results_json(metrics)},
              {"train", curve_json(metrics.loss)},
              {"valid_loss", curve_json(metrics.valid_loss)},
              {"valid_bpc", curve_json(metrics.valid_bpc)},
              {"formats", formats_json(formats)},
              {"scales", std::move(scales)},
              {"events", events_json(folder / "events.jsonl")}};
  // A folder's name may be any bytes.
  return run.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sigma1
