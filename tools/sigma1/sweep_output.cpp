#include "tools/sigma1/sweep_output.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sigma1/base/file.h"
#include "sigma1/base/median.h"
#include "sigma1/base/text.h"
#include "sigma1/report/figures.h"
#include "sigma1/train/session.h"
#include "tools/sigma1/model_source.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

std::string metrics_path(const fs::path& folder, const SweepRow& row) {
  return folder / row.folder / "metrics.jsonl";
}

// As the run itself saw its steps: evaluations are not in it.
double step_ms(const fs::path& folder, const SweepRow& row, const TrainConfig& config) {
  if (!fs::exists(metrics_path(folder, row))) return NAN;
  std::vector<double> speeds = read_metric(metrics_path(folder, row), "tokens_per_s").values;
  if (speeds.empty()) return NAN;
  auto tokens = static_cast<double>(config.size.batch * config.size.time * config.parts());
  return 1e3 * tokens / median(speeds);
}

double test_bpc(const fs::path& run, const std::string& text, const Device& device) {
  Checkpoint checkpoint = open_model(run.string());
  Session session(checkpoint, nullptr, device);
  return session.evaluate(load_tokens(text, session.vocabulary())).bits_per_character;
}

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

}  // namespace

std::vector<BestRun> best_runs(const SweepResult& result, const fs::path& folder,
                               const std::string& test_text, const Device& device) {
  std::vector<BestRun> runs;
  for (const SweptCombination& each : result.combinations) {
    runs.push_back({NAN, NAN});
    const SweepRow* best = each.best();
    if (!best) continue;
    runs.back().step_ms = step_ms(folder, *best, each.combination.config);
    if (test_text.empty()) continue;
    runs.back().test_bpc = test_bpc(folder / best->folder, test_text, device);
  }
  return runs;
}

std::string sweep_table(const SweepResult& result, const std::vector<BestRun>& runs) {
  bool tested = std::ranges::any_of(runs, [](auto& run) { return std::isfinite(run.test_bpc); });
  std::vector<std::string> headings = result.keys;
  headings.insert(headings.end(), {"best rate", "steps", "valid BPC"});
  if (tested) headings.emplace_back("test BPC");
  headings.emplace_back("ms a step");
  std::string text = fmt::format("| {} |\n", fmt::join(headings, " | "));
  for (size_t i = 0; i < headings.size(); ++i) text += "|---";
  text += "|\n";
  for (size_t i = 0; i < result.combinations.size(); ++i) {
    const SweptCombination& each = result.combinations[i];
    std::vector<std::string> cells;
    for (const Setting& setting : each.combination.settings) cells.push_back(setting.value);
    const SweepRow* best = each.best();
    cells.push_back(best ? short_number(best->rate) : "-");
    cells.push_back(best ? std::to_string(best->outcome.steps) : "-");
    cells.push_back(best ? number(best->outcome.valid_bpc, 4) : "diverged");
    if (tested) cells.push_back(number(runs[i].test_bpc, 4));
    cells.push_back(number(runs[i].step_ms, 3));
    text += fmt::format("| {} |\n", fmt::join(cells, " | "));
  }
  return text;
}

std::string curves_of(const SweepResult& result, const fs::path& folder) {
  constexpr size_t kPoints = 25;  // a mean over this share of a run still shows its shape
  std::vector<NamedCurve> curves;
  size_t longest = 1;
  for (const SweptCombination& each : result.combinations) {
    const SweepRow* best = each.best();
    if (!best) continue;
    curves.push_back({short_name(result, each), read_metric(metrics_path(folder, *best), "loss")});
    longest = std::max(longest, curves.back().curve.steps.size());
  }
  auto window = static_cast<int64_t>(std::max<size_t>(1, longest / kPoints));
  return loss_curves_figure(curves, "training loss, nats per token", window);
}

void write_grouped(const SweepResult& result, const fs::path& path,
                   const std::vector<std::string>& by,
                   const std::function<std::string(const SweepResult&)>& draw) {
  std::map<std::string, SweepResult> groups;
  for (const SweptCombination& each : result.combinations) {
    std::string name = path.stem();
    for (const auto& [key, value] : each.combination.settings) {
      if (std::ranges::find(by, key) != by.end()) name += "_" + value;
    }
    groups[name].combinations.push_back(each);
  }
  for (const auto& [name, group] : groups) {
    fs::path place = path.parent_path() / (name + path.extension().string());
    write_file(place, draw(group));
  }
}

}  // namespace sigma1
