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
#include "sigma1/base/signals.h"
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
  for (const auto& [key, there, wanted] : differences(run_config(folder), config)) {
    throw Error("{}: holds a run with {} {}, expected {}; choose another folder for the sweep",
                folder.string(), key, there, wanted);
  }
}

class Sweep {
 public:
  Sweep(const SweepPlan& plan, const SweepOptions& options, const RunFunction& run)
      : options_(options), run_(run), started_(steady_seconds()) {
    result_.keys = plan.swept_keys();
    for (Combination& combination : plan.combinations()) {
      walks_.emplace_back(combination.ladder);
      result_.combinations.push_back({std::move(combination), {}, {}});
    }
  }

  SweepResult execute() {
    make_folder(options_.folder);
    for (size_t i = 0; i < walks_.size(); ++i) recall(i);
    save_csv();
    {
      std::vector<std::jthread> workers;
      for (int job = 0; job < std::max(1, options_.jobs); ++job) {
        workers.emplace_back([this] {
          leave_signals_to_others();
          work();
        });
      }
    }
    if (failure_) std::rethrow_exception(failure_);
    result_.finished = true;
    for (size_t i = 0; i < walks_.size(); ++i) result_.finished &= !next_of(i).has_value();
    return std::move(result_);
  }

 private:
  // A run of a combination that is still to be made.
  struct NextRun {
    double rate;
    bool whole;  // after the ladder
    TrainConfig config;
    std::string folder;  // below the sweep's
  };

  std::optional<NextRun> next_of(size_t i) const {
    const SweptCombination& each = result_.combinations[i];
    const Combination& own = each.combination;
    if (std::optional<double> rate = walks_[i].next()) {
      return NextRun{*rate, false, own.on_ladder(*rate), own.ladder_folder_name(*rate)};
    }
    const SweepRow* best = each.best_on_ladder();
    if (own.ladder_steps == 0 || each.whole || best == nullptr) return std::nullopt;
    return NextRun{best->rate, true, own.at_rate(best->rate), own.folder_name(best->rate)};
  }

  // What an earlier call left of a run.
  std::optional<RunOutcome> recalled(const NextRun& run) const {
    fs::path folder = options_.folder / run.folder;
    expect_same_config(folder, run.config);
    return stored_outcome(folder);
  }

  // Up a ladder as far as earlier calls went, so that the first sweep.csv has no less than theirs.
  void recall(size_t i) {
    while (std::optional<NextRun> next = next_of(i)) {
      std::optional<RunOutcome> outcome = recalled(*next);
      if (!outcome) return;
      add_row(i, *next, *outcome);
    }
  }

  void add_row(size_t i, const NextRun& run, const RunOutcome& outcome) {
    SweepRow row{run.config.resolved_schedule().rate, outcome, run.folder};
    if (run.whole) {
      result_.combinations[i].whole = std::move(row);
      return;
    }
    walks_[i].saw(outcome);
    result_.combinations[i].rows.push_back(std::move(row));
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
    while (std::optional<NextRun> next = next_of(i)) {
      if (stopping()) return;
      std::optional<RunOutcome> outcome = recalled(*next);
      if (!outcome) outcome = run(i, *next);
      if (!outcome) return;
      std::lock_guard lock(mutex_);
      running_.erase(i);
      add_row(i, *next, *outcome);
      save_csv();
    }
  }

  std::optional<RunOutcome> run(size_t i, const NextRun& next) {
    SweepRun run{.config = next.config,
                 .folder = options_.folder / next.folder,
                 .stop = [this] { return stopping(); },
                 .stepped =
                     [this, i, all = next.config.steps](int64_t step) {
                       note_step(i, {step, all});
                     }};
    fs::create_directories(run.folder);
    std::optional<RunOutcome> outcome = run_(run);
    if (outcome) store_outcome(run.folder, *outcome);
    return outcome;
  }

  struct Running {
    int64_t step, all;
  };

  void note_step(size_t i, Running running) {
    std::lock_guard lock(mutex_);
    running_[i] = running;
    ++steps_;
    options_.progress(progress_line());
  }

  std::string progress_line() const {
    int64_t done = 0, left = 0, steps_left = 0;
    bool ladders = false;
    std::vector<std::string> running;
    for (size_t i = 0; i < walks_.size(); ++i) {
      const SweptCombination& each = result_.combinations[i];
      const Combination& own = each.combination;
      int64_t wholes = own.ladder_steps > 0 && !each.whole ? 1 : 0;
      done += static_cast<int64_t>(each.all_rows().size());
      left += walks_[i].most_left() + wholes;
      ladders = ladders || own.ladder.rates().size() > 1;
      steps_left += walks_[i].most_left() * own.on_ladder(0).steps + wholes * own.config.steps;
    }
    for (const auto& [i, run] : running_) {
      running.push_back(fmt::format("{}/{}", run.step, run.all));
      steps_left -= run.step;
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
  std::map<size_t, Running> running_;  // by combination
  int64_t steps_ = 0;                  // in this call
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  std::mutex mutex_;
};

}  // namespace

RunFunction training_run(const Corpus& corpus, std::function<void(const std::string&)> warn,
                         const Device& device) {
  return [&corpus, &device,
          warn = std::move(warn)](const SweepRun& run) -> std::optional<RunOutcome> {
    double started = steady_seconds();
    int64_t steps = 0;
    RunOptions options;
    options.folder = run.folder;
    options.device = &device;
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

SweepResult sweep(const SweepPlan& plan, const SweepOptions& options, const RunFunction& run) {
  return Sweep(plan, options, run).execute();
}

}  // namespace sigma1
