// What a finished sweep is written as: a table of its best runs, and their curves.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sigma1/backend/device.h"
#include "sigma1/train/sweep.h"

namespace sigma1 {

// Of a combination's best run; what is not known is NaN.
struct BestRun {
  double test_bpc, step_ms;
};

// One for each combination. `test_text` may be empty: then it is not evaluated.
std::vector<BestRun> best_runs(const SweepResult& result, const std::filesystem::path& folder,
                               const std::string& test_text, const Device& device);

// Markdown: a line for each combination, with its best rate, bits per character and time of a step.
std::string sweep_table(const SweepResult& result, const std::vector<BestRun>& runs);

// Training loss of every combination's best run as SVG.
std::string curves_of(const SweepResult& result, const std::filesystem::path& folder);

// A figure of all combinations in the file at `path`, or with keys in `by` one for each combination
// of their values, "curves_attention_pre.svg".
void write_grouped(const SweepResult& result, const std::filesystem::path& path,
                   const std::vector<std::string>& by,
                   const std::function<std::string(const SweepResult&)>& draw);

}  // namespace sigma1
