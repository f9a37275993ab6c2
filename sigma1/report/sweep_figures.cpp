// The figures of training runs. Their axes follow the data, because losses depend on the text.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sigma1/base/error.h"
#include "sigma1/report/chart_layout.h"
#include "sigma1/report/figures.h"
#include "sigma1/report/line_chart.h"

namespace sigma1 {
namespace {

constexpr const char* kBits = "validation, bits per character";
constexpr const char* kDiverged = "diverged";
constexpr const char* kBlack = "#222222";

// The finite values of all series with a little air.
Axis axis_around(std::string label, const std::vector<Series>& series) {
  double low = INFINITY, high = -INFINITY;
  for (const Series& each : series) {
    for (double y : each.y) {
      if (!std::isfinite(y)) continue;
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  if (!(low <= high)) low = 0, high = 1;  // nothing but diverged runs
  double air = std::max(0.06 * (high - low), 1e-3 * std::max(1.0, std::abs(high)));
  return {.label = std::move(label), .min = low - air, .max = high + air, .base = 0};
}

double just_below_the_top(const Axis& axis) { return axis.max - 0.02 * (axis.max - axis.min); }

std::vector<double> running_mean(const std::vector<double>& values, int64_t window) {
  std::vector<double> result;
  for (size_t i = 0; i < values.size(); ++i) {
    size_t first = i + 1 - std::min(i + 1, static_cast<size_t>(window));
    double sum = 0;
    for (size_t j = first; j <= i; ++j) sum += values[j];
    result.push_back(sum / static_cast<double>(i + 1 - first));
  }
  return result;
}

std::string value_of(const Settings& settings, const std::string& key) {
  auto found = std::ranges::find(settings, key, &Setting::key);
  if (found == settings.end()) throw Error("figure: expected a key that is swept, got '{}'", key);
  return found->value;
}

// Spread over a third of the column by the golden ratio: neighbours in order land far apart.
double jitter(size_t index) {
  constexpr double kGolden = 0.6180339887498949, kWidth = 0.36;
  return kWidth * (std::fmod(static_cast<double>(index) * kGolden + 0.5, 1.0) - 0.5);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// The names of runs are long; the plot keeps its width beside them.
std::string render_wide(LineChart& chart) {
  constexpr double kPlot = 560;
  double legend = 0;
  for (const Series& series : chart.series) {
    legend = std::max(legend, text_width({series.name}, kLegendFont));
  }
  chart.width = kPlot + legend;
  return render_svg(chart);
}

// One column of a strip plot.
struct Column {
  std::vector<double> best;
  size_t diverged = 0;
};

struct Columns {
  std::vector<std::string> names;  // in order of appearance
  std::map<std::string, Column> by_name;
};

Columns columns_of(const SweepResult& result, std::span<const std::string> by) {
  Columns columns;
  for (const SweptCombination& each : result.combinations) {
    if (each.rows.empty()) continue;
    std::vector<std::string> words;
    for (const std::string& key : by) words.push_back(value_of(each.combination.settings, key));
    std::string name = fmt::format("{}", fmt::join(words, "\n"));
    if (!columns.by_name.contains(name)) columns.names.push_back(name);
    Column& column = columns.by_name[name];
    const SweepRow* best = each.best();
    if (best) {
      column.best.push_back(best->outcome.valid_bpc);
    } else {
      ++column.diverged;
    }
  }
  return columns;
}

}  // namespace

std::string loss_curves_figure(std::span<const NamedCurve> curves, std::string_view quantity,
                               int64_t window) {
  if (window < 1) throw Error("figure: expected a mean of 1 value or more, got {}", window);
  std::string label(quantity);
  if (window > 1) label += fmt::format(" (running mean of {})", window);
  LineChart chart{.x = {.label = "step", .min = 0, .max = 1, .base = 0}};
  for (const auto& [name, curve] : curves) {
    chart.series.push_back(
        {.name = name, .x = curve.steps, .y = running_mean(curve.values, window)});
    for (double step : curve.steps) chart.x.max = std::max(chart.x.max, step);
  }
  chart.y = axis_around(label, chart.series);
  return render_wide(chart);
}

std::string sweep_figure(const SweepResult& result, std::span<const std::string> by) {
  Columns columns = columns_of(result, by);
  Series points{.name = "best over rates", .line = false, .mark = PointMark::dot};
  Series diverged{.name = kDiverged, .line = false, .mark = PointMark::cross, .colour = kBlack};
  Series medians{.name = "median", .line = false, .mark = PointMark::bar};
  for (size_t i = 0; i < columns.names.size(); ++i) {
    const Column& column = columns.by_name[columns.names[i]];
    auto x = static_cast<double>(i);
    for (size_t j = 0; j < column.best.size(); ++j) {
      points.x.push_back(x + jitter(j));
      points.y.push_back(column.best[j]);
    }
    for (size_t j = 0; j < column.diverged; ++j) diverged.x.push_back(x + jitter(j));
    if (column.best.empty()) continue;
    medians.x.push_back(x);
    medians.y.push_back(median(column.best));
  }
  LineChart chart{.x = {.label = fmt::format("{}", fmt::join(by, ", ")),
                        .min = -0.5,
                        .max = static_cast<double>(columns.names.size()) - 0.5,
                        .base = 0,
                        .categories = columns.names}};
  chart.y = axis_around(kBits, {points});
  diverged.y.assign(diverged.x.size(), just_below_the_top(chart.y));
  chart.series = {std::move(points), std::move(medians)};
  if (!diverged.x.empty()) chart.series.push_back(std::move(diverged));
  return render_svg(chart);
}

std::string ladder_figure(const SweepResult& result) {
  constexpr double kHighest = 2;  // bits above the best; beyond, a run has not learnt
  std::vector<Series> series;
  double low = INFINITY, high = 0;
  for (const SweptCombination& each : result.combinations) {
    if (each.rows.empty()) continue;
    series.push_back({.name = short_name(result, each), .mark = PointMark::dot});
    for (const SweepRow& row : each.rows) {
      low = std::min(low, row.rate);
      high = std::max(high, row.rate);
      series.back().x.push_back(row.rate);
      series.back().y.push_back(row.outcome.diverged ? INFINITY : row.outcome.valid_bpc);
    }
  }
  LineChart chart{.x = {.label = "learning rate", .min = low / 1.3, .max = high * 1.3, .base = 2},
                  .y = axis_around(kBits, series)};
  chart.y.max = std::min(chart.y.max, chart.y.min + kHighest);
  Series diverged{.name = kDiverged, .line = false, .mark = PointMark::cross, .colour = kBlack};
  for (Series& line : series) {
    for (size_t i = 0; i < line.y.size(); ++i) {
      if (std::isfinite(line.y[i])) continue;
      line.y[i] = just_below_the_top(chart.y);
      diverged.x.push_back(line.x[i]);
      diverged.y.push_back(line.y[i]);
    }
  }
  chart.series = std::move(series);
  if (!diverged.x.empty()) chart.series.push_back(std::move(diverged));
  return render_wide(chart);
}

}  // namespace sigma1
