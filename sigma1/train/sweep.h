// Runs a sweep in a folder, several runs side by side. It can be stopped or killed at any time and
// called again: finished runs are not run again, unfinished ones go on from their checkpoint.
//
//   SWEEP/sweep.csv  SWEEP/context=conv_rate=2^-6/{result.json, and what a run has}
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sigma1/backend/device.h"
#include "sigma1/train/corpus.h"
#include "sigma1/train/sweep_plan.h"

namespace sigma1 {

struct SweepRun {
  TrainConfig config;
  std::filesystem::path folder;
  std::function<bool()> stop;
  std::function<void(int64_t step)> stepped;
};

// Gives nothing when it was stopped before its end.
using RunFunction = std::function<std::optional<RunOutcome>(const SweepRun&)>;

// Trains, or goes on with what is in the folder. `corpus` must outlive it.
RunFunction training_run(const Corpus& corpus, std::function<void(const std::string&)> warn,
                         const Device& device = cpu_device());

struct SweepRow {
  double rate = 0;
  RunOutcome outcome;
  std::string folder;  // below the sweep's
};

struct SweptCombination {
  Combination combination;
  std::vector<SweepRow> rows;     // up the ladder
  std::optional<SweepRow> whole;  // after a ladder of short runs, the one of all steps

  // Of the ladder, the row with the fewest bits per character; none when all diverged.
  const SweepRow* best_on_ladder() const;
  // What counts: the whole run where there is one, else the ladder's best; none when it diverged.
  const SweepRow* best() const;
  std::vector<const SweepRow*> all_rows() const;
};

struct SweepResult {
  std::vector<std::string> keys;
  std::vector<SweptCombination> combinations;  // in the order of the grid
  bool finished = false;                       // false: stopped
};

struct SweepOptions {
  std::filesystem::path folder;
  int jobs = 1;
  std::function<bool()> stop = [] { return false; };
  std::function<void(const std::string&)> progress = [](const std::string&) {};  // one line
};

// Throws what a run throws, once the others are saved.
SweepResult sweep(const SweepPlan& plan, const SweepOptions& options, const RunFunction& run);

// One line for each run: the swept keys, rate, valid_bpc, status, steps, seconds, folder.
std::string to_csv(const SweepResult& result);

// The settings in which the combinations differ, short enough for a legend: "conv fp16".
std::string short_name(const SweepResult& result, const SweptCombination& combination);

std::string status_name(const RunOutcome& outcome);  // ok, diverged

}  // namespace sigma1
