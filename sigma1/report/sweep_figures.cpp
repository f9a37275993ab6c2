// The figures of training runs. Their axes follow the data, because losses depend on the text.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>

#include "sigma1/base/error.h"
#include "sigma1/base/median.h"
#include "sigma1/report/chart_layout.h"
#include "sigma1/report/figures.h"
#include "sigma1/report/line_chart.h"

namespace sigma1 {
namespace {

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

// All runs share one text.
std::string bits_label(const SweepResult& result) {
  TrainConfig config;
  if (!result.combinations.empty()) config = result.combinations.front().combination.config;
  std::string_view names[] = {"character", "byte", "token"};
  auto kind = static_cast<size_t>(config.tokens.of(config.train_text));
  return fmt::format("validation, bits per {}", names[kind]);
}

// Spread over `width` by the golden ratio: neighbours in order land far apart.
double jitter(size_t index, double width) {
  constexpr double kGolden = 0.6180339887498949;
  return width * (std::fmod(static_cast<double>(index) * kGolden + 0.5, 1.0) - 0.5);
}

std::string method_name(const std::string& method) {
  return method == "none" ? "regular" : method == "unit" ? "unit scaling" : method;
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

using Combinations = std::vector<const SweptCombination*>;

// Combinations with the same values of some keys.
struct Groups {
  std::vector<std::string> names;  // in order of appearance
  std::map<std::string, Combinations> by_name;
};

std::string name_by(const SweptCombination& each, std::span<const std::string> keys) {
  std::vector<std::string> words;
  for (const std::string& key : keys) words.push_back(value_of(each.combination.settings, key));
  return fmt::format("{}", fmt::join(words, "\n"));
}

Groups groups_of(const SweepResult& result, std::span<const std::string> by) {
  Groups groups;
  for (const SweptCombination& each : result.combinations) {
    if (each.rows.empty()) continue;
    std::string name = name_by(each, by);
    if (!groups.by_name.contains(name)) groups.names.push_back(name);
    groups.by_name[name].push_back(&each);
  }
  return groups;
}

// A point for each combination at its best rate, spread about x; `diverged` has no heights yet.
void add_column(double x, double spread, const Combinations& combinations, Series& points,
                Series& diverged) {
  size_t converged = 0, failed = 0;
  for (const SweptCombination* each : combinations) {
    const SweepRow* best = each->best();
    if (best) {
      points.x.push_back(x + jitter(converged++, spread));
      points.y.push_back(best->outcome.valid_bpc);
    } else {
      diverged.x.push_back(x + jitter(failed++, spread));
    }
  }
}

Axis columns_axis(std::string label, std::vector<std::string> names) {
  double last = static_cast<double>(names.size()) - 1;
  return {.label = std::move(label),
          .min = -0.5,
          .max = last + 0.5,
          .base = 0,
          .categories = std::move(names)};
}

Series diverged_series() {
  return {.name = kDiverged, .line = false, .mark = PointMark::cross, .colour = kBlack};
}

// The chart of series whose values are known, with what diverged at its top.
void finish_columns(LineChart& chart, Series diverged, const SweepResult& result) {
  chart.y = axis_around(bits_label(result), chart.series);
  if (diverged.x.empty()) return;
  diverged.y.assign(diverged.x.size(), just_below_the_top(chart.y));
  chart.series.push_back(std::move(diverged));
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
  constexpr double kSpread = 0.36;
  Groups groups = groups_of(result, by);
  Series points{.name = "best over rates", .line = false, .mark = PointMark::dot};
  Series medians{.name = "median", .line = false, .mark = PointMark::bar};
  Series diverged = diverged_series();
  for (size_t i = 0; i < groups.names.size(); ++i) {
    auto x = static_cast<double>(i);
    size_t before = points.y.size();
    add_column(x, kSpread, groups.by_name[groups.names[i]], points, diverged);
    if (points.y.size() == before) continue;
    medians.x.push_back(x);
    medians.y.push_back(
        median({points.y.begin() + static_cast<std::ptrdiff_t>(before), points.y.end()}));
  }
  LineChart chart{.x = columns_axis(fmt::format("{}", fmt::join(by, ", ")), groups.names),
                  .series = {std::move(points), std::move(medians)}};
  finish_columns(chart, std::move(diverged), result);
  return render_svg(chart);
}

std::string residual_figure(const SweepResult& result) {
  constexpr double kColumn = 0.74;  // what the series of a model share, in columns
  constexpr std::array kMarks = {PointMark::dot, PointMark::square, PointMark::triangle,
                                 PointMark::diamond};
  const std::vector<std::string> model_keys = {"context", "depth"};
  const std::vector<std::string> kind_keys = {"method", "residual"};
  Groups models = groups_of(result, model_keys), kinds = groups_of(result, kind_keys);
  std::vector<std::string> weightings = groups_of(result, std::span(kind_keys).last(1)).names;
  double pitch = kColumn / static_cast<double>(std::max<size_t>(kinds.names.size(), 1));
  LineChart chart{.x = columns_axis("", models.names)};
  for (std::string& name : chart.x.categories) name += name.ends_with("\n1") ? " layer" : " layers";
  Series diverged = diverged_series();
  for (size_t k = 0; k < kinds.names.size(); ++k) {
    const Combinations& members = kinds.by_name[kinds.names[k]];
    const Settings& settings = members.front()->combination.settings;
    std::string method = value_of(settings, "method"), weighting = value_of(settings, "residual");
    auto look = static_cast<size_t>(std::ranges::find(weightings, weighting) - weightings.begin());
    Series series{.name = fmt::format("{}, {}", method_name(method), weighting),
                  .line = false,
                  .mark = kMarks[look % kMarks.size()],
                  .hollow = method != "unit",
                  .colour = kColours[look % kColours.size()]};
    for (size_t i = 0; i < models.names.size(); ++i) {
      Combinations column;
      std::ranges::copy_if(members, std::back_inserter(column), [&](const SweptCombination* each) {
        return name_by(*each, model_keys) == models.names[i];
      });
      double x = static_cast<double>(i) - kColumn / 2 + (static_cast<double>(k) + 0.5) * pitch;
      add_column(x, pitch / 2, column, series, diverged);
    }
    chart.series.push_back(std::move(series));
  }
  finish_columns(chart, std::move(diverged), result);
  return render_wide(chart);
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
                  .y = axis_around(bits_label(result), series)};
  chart.y.max = std::min(chart.y.max, chart.y.min + kHighest);
  Series diverged = diverged_series();
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
