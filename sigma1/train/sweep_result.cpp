// What a sweep found, as it is told: the best of a combination, lines of sweep.csv, short names.
#include <fmt/ranges.h>

#include <algorithm>

#include "sigma1/train/sweep.h"

namespace sigma1 {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

const SweepRow* SweptCombination::best_on_ladder() const {
  const SweepRow* found = nullptr;
  for (const SweepRow& row : rows) {
    if (row.outcome.diverged) continue;
    if (!found || row.outcome.valid_bpc < found->outcome.valid_bpc) found = &row;
  }
  return found;
}

const SweepRow* SweptCombination::best() const {
  if (!whole) return best_on_ladder();
  return whole->outcome.diverged ? nullptr : &*whole;
}

std::vector<const SweepRow*> SweptCombination::all_rows() const {
  std::vector<const SweepRow*> all;
  for (const SweepRow& row : rows) all.push_back(&row);
  if (whole) all.push_back(&*whole);
  return all;
}

std::string to_csv(const SweepResult& result) {
  std::string out;
  for (const std::string& key : result.keys) {
    if (key != "rate") out += csv_field(key) + ",";  // every line has it anyway
  }
  out += "rate,valid_bpc,status,steps,seconds,folder\n";
  for (const SweptCombination& each : result.combinations) {
    for (const SweepRow* row : each.all_rows()) {
      for (const auto& [key, value] : each.combination.settings) {
        if (key != "rate") out += csv_field(value) + ",";
      }
      const RunOutcome& outcome = row->outcome;
      out +=
          fmt::format("{},{},{},{},{:.3f},{}\n", row->rate,
                      outcome.diverged ? "" : fmt::format("{}", outcome.valid_bpc),
                      status_name(outcome), outcome.steps, outcome.seconds, csv_field(row->folder));
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
