#include "sigma1/train/sweep.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/text.h"
#include "sigma1/train/progress.h"
#include "sigma1/train/trainer.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

fs::path result_path(const fs::path& folder) { return folder / "result.json"; }

void store_outcome(const fs::path& folder, const RunOutcome& outcome) {
  Json json{{"status", status_name(outcome)},
            {"valid_bpc", outcome.diverged ? Json(nullptr) : Json(outcome.valid_bpc)},
            {"steps", outcome.steps},
            {"seconds", outcome.seconds}};
  write_file(result_path(folder).string(), json.dump(2) + "\n");
}

std::optional<RunOutcome> stored_outcome(const fs::path& folder) {
  std::string path = result_path(folder).string();
  if (!fs::exists(path)) return std::nullopt;
  Json json = Json::parse(read_file(path), nullptr, false);
  try {
    RunOutcome outcome{.diverged = json.at("status") == "diverged",
                       .steps = json.at("steps").get<int64_t>(),
                       .seconds = json.at("seconds").get<double>()};
    if (!outcome.diverged) outcome.valid_bpc = json.at("valid_bpc").get<double>();
    return outcome;
  } catch (const Json::exception&) {
    throw Error("{}: expected the result of a run; without the file it is run again", path);
  }
}

// A folder is found by the swept settings alone; the others must be the same too.
void expect_same_config(const fs::path& folder, const TrainConfig& config) {
  if (!holds_run(folder)) return;
  Json there = Json::parse(run_config(folder).to_json()), wanted = Json::parse(config.to_json());
  for (const auto& [key, value] : wanted.items()) {
    if (there[key] == value) continue;
    throw Error("{}: holds a run with {} {}, expected {}; choose another folder for the sweep",
                folder.string(), key, there[key].dump(), value.dump());
  }
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

class Sweep {
 public:
  Sweep(const SweepPlan& plan, const SweepOptions& options, const RunFunction& run)
      : options_(options), run_(run), started_(steady_seconds()) {
    result_.keys = plan.swept_keys();
    for (Combination& combination : plan.combinations()) {
      walks_.emplace_back(combination.ladder);
      result_.combinations.push_back({std::move(combination), {}});
    }
  }

  SweepResult execute() {
    fs::create_directories(options_.folder);
    for (size_t i = 0; i < walks_.size(); ++i) recall(i);
    save_csv();
    {
      std::vector<std::jthread> workers;
      for (int job = 0; job < std::max(1, options_.jobs); ++job) {
        workers.emplace_back([this] { work(); });
      }
    }
    if (failure_) std::rethrow_exception(failure_);
    result_.finished = std::ranges::all_of(walks_, [](const LadderWalk& w) { return !w.next(); });
    return std::move(result_);
  }

 private:
  fs::path folder_of(size_t i, double rate) const {
    return options_.folder / result_.combinations[i].combination.folder_name(rate);
  }

  // What an earlier call left of a run.
  std::optional<RunOutcome> recalled(size_t i, double rate) const {
    fs::path folder = folder_of(i, rate);
    expect_same_config(folder, result_.combinations[i].combination.at_rate(rate));
    return stored_outcome(folder);
  }

  // Up a ladder as far as earlier calls went, so that the first sweep.csv has no less than theirs.
  void recall(size_t i) {
    while (std::optional<double> rate = walks_[i].next()) {
      std::optional<RunOutcome> outcome = recalled(i, *rate);
      if (!outcome) return;
      add_row(i, *rate, *outcome);
    }
  }

  void add_row(size_t i, double rate, const RunOutcome& outcome) {
    walks_[i].saw(outcome);
    const Combination& combination = result_.combinations[i].combination;
    double shown = combination.at_rate(rate).resolved_schedule().rate;
    result_.combinations[i].rows.push_back({shown, outcome, combination.folder_name(rate)});
  }

  void save_csv() const { write_file((options_.folder / "sweep.csv").string(), to_csv(result_)); }

  bool stopping() const { return failed_ || options_.stop(); }

  void work() {
    try {
      for (size_t i; (i = next_.fetch_add(1)) < walks_.size() && !stopping();) climb(i);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_ = true;
    }
  }

  void climb(size_t i) {
    while (std::optional<double> rate = walks_[i].next()) {
      if (stopping()) return;
      std::optional<RunOutcome> outcome = recalled(i, *rate);
      if (!outcome) outcome = run(i, *rate);
      if (!outcome) return;
      std::lock_guard lock(mutex_);
      running_.erase(i);
      add_row(i, *rate, *outcome);
      save_csv();
    }
  }

  std::optional<RunOutcome> run(size_t i, double rate) {
    SweepRun run{.config = result_.combinations[i].combination.at_rate(rate),
                 .folder = folder_of(i, rate),
                 .stop = [this] { return stopping(); },
                 .stepped = [this, i](int64_t step) { note_step(i, step); }};
    fs::create_directories(run.folder);
    std::optional<RunOutcome> outcome = run_(run);
    if (outcome) store_outcome(run.folder, *outcome);
    return outcome;
  }

  void note_step(size_t i, int64_t step) {
    std::lock_guard lock(mutex_);
    running_[i] = step;
    ++steps_;
    options_.progress(progress_line());
  }

  std::string progress_line() const {
    int64_t done = 0, left = 0, steps_left = 0;
    bool ladders = false;
    std::vector<std::string> running;
    for (size_t i = 0; i < walks_.size(); ++i) {
      const SweptCombination& each = result_.combinations[i];
      done += static_cast<int64_t>(each.rows.size());
      left += walks_[i].most_left();
      ladders = ladders || each.combination.ladder.rates().size() > 1;
      steps_left += walks_[i].most_left() * each.combination.config.steps;
    }
    for (auto [i, step] : running_) {
      int64_t all = result_.combinations[i].combination.config.steps;
      running.push_back(fmt::format("{}/{}", step, all));
      steps_left -= step;
    }
    double per_step = (steady_seconds() - started_) / static_cast<double>(steps_);
    const char* most = ladders ? "at most " : "";
    return fmt::format("{} of {}{} runs done, running {}, {}{} left", done, most, done + left,
                       fmt::join(running, " "), most,
                       format_duration(per_step * static_cast<double>(steps_left)));
  }

  const SweepOptions& options_;
  const RunFunction& run_;
  double started_;
  std::vector<LadderWalk> walks_;  // each touched by one worker, or under the mutex
  SweepResult result_;
  std::map<size_t, int64_t> running_;  // steps done by combination
  int64_t steps_ = 0;                  // in this call
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  std::mutex mutex_;
};

}  // namespace

RunFunction training_run(const Corpus& corpus, std::function<void(const std::string&)> warn) {
  return [&corpus, warn = std::move(warn)](const SweepRun& run) -> std::optional<RunOutcome> {
    double started = steady_seconds();
    int64_t steps = 0;
    RunOptions options;
    options.folder = run.folder;
    options.resume = holds_run(run.folder);
    options.stop = run.stop;
    options.stepped = [&](int64_t step) {
      steps = step;
      run.stepped(step);
    };
    options.warn = warn;
    try {
      RunResult result = train(run.config, options, corpus);
      if (!result.finished) return std::nullopt;
      double bits = result.valid.bits_per_character;
      return RunOutcome{!std::isfinite(bits), bits, result.steps, result.seconds};
    } catch (const NotFinite&) {
      return RunOutcome{.diverged = true, .steps = steps, .seconds = steady_seconds() - started};
    }
  };
}

const SweepRow* SweptCombination::best() const {
  const SweepRow* found = nullptr;
  for (const SweepRow& row : rows) {
    if (row.outcome.diverged) continue;
    if (!found || row.outcome.valid_bpc < found->outcome.valid_bpc) found = &row;
  }
  return found;
}

SweepResult sweep(const SweepPlan& plan, const SweepOptions& options, const RunFunction& run) {
  return Sweep(plan, options, run).execute();
}

std::string to_csv(const SweepResult& result) {
  std::string out;
  for (const std::string& key : result.keys) {
    if (key != "rate") out += csv_field(key) + ",";  // every line has it anyway
  }
  out += "rate,valid_bpc,status,steps,seconds,folder\n";
  for (const SweptCombination& each : result.combinations) {
    for (const SweepRow& row : each.rows) {
      for (const auto& [key, value] : each.combination.settings) {
        if (key != "rate") out += csv_field(value) + ",";
      }
      const RunOutcome& outcome = row.outcome;
      out +=
          fmt::format("{},{},{},{},{:.3f},{}\n", row.rate,
                      outcome.diverged ? "" : fmt::format("{}", outcome.valid_bpc),
                      status_name(outcome), outcome.steps, outcome.seconds, csv_field(row.folder));
    }
  }
  return out;
}

std::string short_name(const SweepResult& result, const SweptCombination& combination) {
  std::vector<std::string> words;
  for (size_t i = 0; i < combination.combination.settings.size(); ++i) {
    const Setting& own = combination.combination.settings[i];
    bool differs = std::ranges::any_of(result.combinations, [&](const SweptCombination& other) {
      return other.combination.settings[i] != own;
    });
    if (differs) words.push_back(own.value);
  }
  return words.empty() ? "run" : fmt::format("{}", fmt::join(words, " "));
}

std::string status_name(const RunOutcome& outcome) { return outcome.diverged ? "diverged" : "ok"; }

}  // namespace sigma1
