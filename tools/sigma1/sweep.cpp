// `sigma1 sweep`: many runs, each combination of settings at its best learning rate.
#include "sigma1/train/sweep.h"

#include <cmath>
#include <set>

#include "sigma1/backend/devices.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/parallel.h"
#include "sigma1/base/text.h"
#include "sigma1/report/figures.h"
#include "sigma1/train/bert_source.h"
#include "sigma1/train/progress.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"
#include "tools/sigma1/settings.h"
#include "tools/sigma1/stop_signal.h"
#include "tools/sigma1/sweep_output.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  SettingOptions settings;
  std::string plan, folder, cache, ladder;
  std::vector<std::string> axes;
  std::optional<double> threshold;
  std::optional<int64_t> ladder_steps;
  std::string device = "auto";
  std::optional<int> jobs;
  bool json = false, dry_run = false;
  std::string figure, figure_by, ladder_figure, residual_figure, curves, table, test_text;
  std::vector<std::string> curves_by, ladder_by;
};

SweepPlan plan_from(const Options& options) {
  SweepPlan plan;
  if (!options.plan.empty()) plan = SweepPlan::from_file(options.plan);
  if (!options.settings.config.empty()) {
    if (!options.plan.empty()) throw Error("--config: a sweep's file has its own base; give one");
    plan.base = TrainConfig::from_file(options.settings.config);
  }
  std::vector<std::string> changed = apply_changes(options.settings, plan.base);
  std::set<std::string> varied;  // a key of the file may be varied anew, but not twice
  for (const std::string& text : options.axes) {
    SweepAxis axis = parse_axis(text);
    for (const Setting& setting : axis.front()) {
      if (varied.insert(setting.key).second) continue;
      throw Error("--vary: expected each key once, got '{}' twice", setting.key);
    }
    plan.vary(std::move(axis));
  }
  double threshold = options.threshold.value_or(plan.ladder.threshold);
  if (!options.ladder.empty()) plan.ladder = parse_ladder(options.ladder);
  plan.ladder.threshold = threshold;
  plan.ladder_steps = options.ladder_steps.value_or(plan.ladder_steps);
  if (!options.figure_by.empty()) plan.figure_by = options.figure_by;
  std::vector<std::string> swept = plan.swept_keys();
  for (const std::string& key : changed) {
    if (std::ranges::find(swept, key) == swept.end()) continue;
    throw Error("--set {0}: {0} is varied here; --vary {0}=VALUE holds it fixed", key);
  }
  return plan;
}

void expect_swept(const SweepPlan& plan, const std::vector<std::string>& keys, const char* flag) {
  std::vector<std::string> swept = plan.swept_keys();
  for (const std::string& key : keys) {
    if (std::ranges::find(swept, key) != swept.end()) continue;
    throw Error("{}: expected keys that are varied, got '{}'", flag, key);
  }
}

std::vector<std::string> figure_keys(const SweepPlan& plan) {
  if (plan.figure_by.empty()) return plan.swept_keys();
  std::vector<std::string> keys = split(plan.figure_by, ',');
  expect_swept(plan, keys, "--figure-by");
  return keys;
}

// What is wrong with the flags must not be found out after hours.
void check(const SweepPlan& plan, const Options& options) {
  if (options.folder.empty()) throw Error("--out: expected a folder to keep the runs in");
  if (options.jobs && *options.jobs < 1) {
    throw Error("--jobs: expected 1 or more, got {}", *options.jobs);
  }
  figure_keys(plan);
  expect_swept(plan, options.curves_by, "--curves-by");
  expect_swept(plan, options.ladder_by, "--ladder-figure-by");
  if (!options.test_text.empty() && !std::filesystem::exists(options.test_text)) {
    throw Error("--test: expected a text, and {} is not there", options.test_text);
  }
  if (!options.residual_figure.empty()) {
    expect_swept(plan, {"context", "depth", "method", "residual"}, "--residual-figure");
  }
  for (const std::string* path : {&options.figure, &options.ladder_figure, &options.residual_figure,
                                  &options.curves, &options.table}) {
    if (!path->empty()) expect_writable(*path);
  }
}

std::string rates_text(const std::vector<double>& rates, const TrainConfig& config) {
  if (rates.size() > 1) return short_number(rates.front()) + " to " + short_number(rates.back());
  return short_number(rates.front() > 0 ? rates.front() : config.resolved_schedule().rate);
}

std::vector<std::string> cells_of(const Settings& settings) {
  std::vector<std::string> cells;
  for (const Setting& setting : settings) cells.push_back(setting.value);
  return cells;
}

void list_runs(const SweepPlan& plan, bool as_json) {
  std::vector<std::string> headings = plan.swept_keys();
  headings.insert(headings.end(), {"rates", "runs at most", "steps"});
  if (plan.ladder_steps > 0) headings.emplace_back("then");
  Table table(headings);
  Json list = Json::array();
  size_t runs = 0, combinations = 0;
  for (const Combination& each : plan.combinations()) {
    std::vector<double> rates = each.ladder.rates();
    std::vector<std::string> row = cells_of(each.settings);
    row.insert(row.end(), {rates_text(rates, each.config), std::to_string(rates.size()),
                           std::to_string(each.on_ladder(0).steps)});
    if (each.ladder_steps > 0) row.push_back(std::to_string(each.config.steps));
    table.add(row);
    for (double rate : rates) list.push_back(each.ladder_folder_name(rate));
    runs += rates.size() + (each.ladder_steps > 0 ? 1 : 0);
    ++combinations;
  }
  if (as_json) return print_json(list);
  if (!plan.about.empty()) fmt::print("{}\n\n", plan.about);
  table.print();
  fmt::print("\n{} combinations, at most {} runs\n", combinations, runs);
}

Json json_of(const SweepRow& row) {
  const RunOutcome& outcome = row.outcome;
  return {{"rate", row.rate},
          {"valid_bpc", outcome.diverged ? Json(nullptr) : Json(outcome.valid_bpc)},
          {"status", status_name(outcome)},
          {"steps", outcome.steps},
          {"seconds", outcome.seconds},
          {"folder", row.folder}};
}

Json json_of(const SweepResult& result, const std::vector<BestRun>& bests,
             const std::string& folder) {
  Json combinations = Json::array();
  for (size_t i = 0; i < result.combinations.size(); ++i) {
    const SweptCombination& each = result.combinations[i];
    Json settings = Json::object(), runs = Json::array(), best = nullptr;
    for (const auto& [key, value] : each.combination.settings) settings[key] = value;
    for (const SweepRow* row : each.all_rows()) runs.push_back(json_of(*row));
    if (each.best()) {
      best = json_of(*each.best());
      if (std::isfinite(bests[i].test_bpc)) best["test_bpc"] = bests[i].test_bpc;
      if (std::isfinite(bests[i].step_ms)) best["step_ms"] = bests[i].step_ms;
    }
    combinations.push_back({{"settings", settings}, {"best", best}, {"runs", runs}});
  }
  return {{"sweep", folder}, {"finished", result.finished}, {"combinations", combinations}};
}

void print_best(const SweepResult& result) {
  std::vector<std::string> headings = result.keys;
  headings.insert(headings.end(), {"runs", "best rate", "valid bpc"});
  Table table(headings);
  for (const SweptCombination& each : result.combinations) {
    if (each.rows.empty()) continue;
    std::vector<std::string> row = cells_of(each.combination.settings);
    const SweepRow* best = each.best();
    row.push_back(std::to_string(each.all_rows().size()));
    row.push_back(best ? short_number(best->rate) : "-");
    row.push_back(best ? fmt::format("{:.4f}", best->outcome.valid_bpc) : "diverged");
    table.add(row);
  }
  table.print();
}

void write_figures(const SweepResult& result, const SweepPlan& plan, const Options& options) {
  if (!options.figure.empty()) {
    write_file(options.figure, sweep_figure(result, figure_keys(plan)));
  }
  if (!options.ladder_figure.empty()) {
    write_grouped(result, options.ladder_figure, options.ladder_by, ladder_figure);
  }
  if (!options.residual_figure.empty()) {
    write_file(options.residual_figure, residual_figure(result));
  }
  if (!options.curves.empty()) {
    auto draw = [&](const SweepResult& group) { return curves_of(group, options.folder); };
    write_grouped(result, options.curves, options.curves_by, draw);
  }
}

// One small model leaves most of a GPU idle; on processors every run has all threads.
int default_jobs(const Device& device) {
  constexpr int kOnGpu = 8;
  return &device == &cpu_device() ? 1 : kOnGpu;
}

SweepResult execute(const SweepPlan& plan, const Options& options, const Device& device) {
  plan.combinations();  // mistakes come before the text is read
  Corpus corpus = load_corpus(plan.base, options.cache);
  set_thread_count(0);
  int jobs = options.jobs.value_or(default_jobs(device));
  set_thread_count(std::max(1, thread_count() / jobs));
  StopSignal stop;
  ProgressLine line(stderr);
  SweepOptions sweep_options{.folder = options.folder,
                             .jobs = jobs,
                             .stop = [&] { return stop.arrived(); },
                             .progress = [&](const std::string& text) { line.update(text); }};
  auto warn = [](const std::string& text) { fmt::print(stderr, "sigma1: {}\n", text); };
  return sweep(plan, sweep_options, training_run(corpus, warn, device));
}

void run(const Options& options) {
  SweepPlan plan = plan_from(options);
  if (options.dry_run) return list_runs(plan, options.json);
  check(plan, options);
  const Device& device = find_device(options.device);
  SweepResult result = execute(plan, options, device);
  std::string test_text = result.finished ? options.test_text : "";
  std::vector<BestRun> bests = best_runs(result, options.folder, test_text, device);
  if (options.json) {
    print_json(json_of(result, bests, options.folder));
  } else {
    print_best(result);
  }
  if (!result.finished) {
    fmt::print(stderr, "sigma1: stopped, all runs are saved; the same command goes on with them\n");
    return;
  }
  if (!options.table.empty()) write_file(options.table, sweep_table(result, bests));
  write_figures(result, plan, options);
}

void add_options(CLI::App& command, Options& options) {
  command.add_option("--sweep", options.plan, "Sweep from a JSON file; flags go over it");
  add_settings(command, options.settings);
  command.add_option("--vary", options.axes,
                     "KEY=VALUE|VALUE|…, or keys bound together: KEY=VALUE,KEY=VALUE|…; every "
                     "combination is run");
  command.add_option("--ladder", options.ladder,
                     "Learning rates START:LIMIT, each twice the one before");
  command.add_option("--ladder-steps", options.ladder_steps,
                     "Steps of a ladder's runs; the best rate is then run for all steps");
  command.add_option("--threshold", options.threshold,
                     "Bits per character above the best that end a ladder [0.1]");
  command.add_option("--out", options.folder, "Folder of the sweep: made, or gone on with");
  command.add_option("--jobs", options.jobs, "Runs side by side [1; 8 on a GPU]");
  command.add_option("--device", options.device, kDeviceHelp)->capture_default_str();
  command.add_option("--cache", options.cache, "Folder to keep token ids in between calls");
  command.add_option("--figure", options.figure, "Draw best values as SVG");
  command.add_option("--figure-by", options.figure_by, "Keys that make a column of the figure");
  command.add_option("--ladder-figure", options.ladder_figure, "Draw values against rates as SVG");
  command
      .add_option("--ladder-figure-by", options.ladder_by,
                  "Keys whose values have a figure of rates each")
      ->delimiter(',');
  command.add_option(
      "--residual-figure", options.residual_figure,
      "Compare residual weightings as SVG: context, depth, method and residual varied");
  command.add_option("--curves", options.curves, "Draw the best runs' training loss as SVG");
  command
      .add_option("--curves-by", options.curves_by,
                  "Keys whose values have a figure of curves each")
      ->delimiter(',');
  command.add_option("--table", options.table, "Write the best runs as a Markdown table");
  command.add_option("--test", options.test_text, "A text to evaluate the best runs on");
  command.add_flag("--dry-run", options.dry_run, "Only list the runs");
  command.add_flag("--json", options.json, "Print the results as JSON");
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("sweep", "Train every combination of settings, each at its best rate");
  add_options(*command, *options);
  command->footer(
      "A ladder ends where a run is worse than the best by the threshold, or diverges. A sweep "
      "that\n"
      "was stopped or killed goes on when it is called again. Results: OUT/sweep.csv.\n\n"
      "Examples:\n"
      "  sigma1 sweep --train corpus.txt --set steps=500 --vary \"context=attention|conv|rnn\" \\\n"
      "    --vary \"method=none,precision=fp32 | method=unit,precision=fp8\" \\\n"
      "    --ladder 2^-10:2^-3 --out sweeps/a --jobs 2\n"
      "  sigma1 sweep --sweep experiments/char_sweep.json --dry-run\n"
      "  sigma1 sweep --sweep experiments/records_wikipedia.json --train t.txt --valid v.txt \\\n"
      "    --out sweeps/b --figure b.svg --figure-by method,precision");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
