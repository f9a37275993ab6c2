// What a sweep consists of: one config, settings that vary, and for every combination of them a
// ladder of learning rates, because methods can only be compared each at its own best rate.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/train/train_config.h"

namespace sigma1 {

struct Setting {
  std::string key, value;
  bool operator==(const Setting&) const = default;
};
using Settings = std::vector<Setting>;

std::string to_string(const Settings& settings);  // "method=unit,precision=fp8"

// The alternatives of a sweep's one dimension; each sets the same keys.
using SweepAxis = std::vector<Settings>;

// "context=attention|conv|rnn", or keys bound together, "method=none,precision=fp32 |
// method=unit,precision=fp8". Throws Error.
SweepAxis parse_axis(std::string_view text);

// Rates start, 2·start, … up to the limit, until one is worse than the best by the threshold.
struct Ladder {
  double start = 0, limit = 0;  // 0: no ladder, one run at the config's own rate
  double threshold = 0.1;       // bits per character

  std::vector<double> rates() const;  // at most
};

// "2^-12:2^-4". Throws Error.
Ladder parse_ladder(std::string_view text);

// How a run ended.
struct RunOutcome {
  bool diverged = false;
  double valid_bpc = 0;  // not when diverged
  int64_t steps = 0;
  double seconds = 0;  // of the call that ended it
};

// Which rate comes next on a ladder, given how those before it went.
class LadderWalk {
 public:
  explicit LadderWalk(const Ladder& ladder);

  std::optional<double> next() const;
  void saw(const RunOutcome& outcome);
  int64_t most_left() const;

 private:
  double threshold_, best_;
  std::vector<double> rates_;
  size_t at_ = 0;
};

// One point of the grid, to be run at each rate of its ladder.
struct Combination {
  Settings settings;
  TrainConfig config;
  Ladder ladder;
  int64_t ladder_steps = 0;  // as the plan's

  TrainConfig at_rate(double rate) const;
  // A run of the ladder.
  TrainConfig on_ladder(double rate) const;
  // Of a run: the settings as a file name that is safe everywhere and the same in every call.
  std::string folder_name(double rate) const;
  std::string ladder_folder_name(double rate) const;
};

struct SweepPlan {
  std::string about;
  TrainConfig base;
  std::vector<SweepAxis> axes;
  Ladder ladder;
  // Above 0: the runs of a ladder have so many steps, and a run of all steps follows at the best
  // rate. Long runs at every rate are not always to be had.
  int64_t ladder_steps = 0;
  std::string figure_by;  // keys, with commas

  // {"about": …, "base": {…}, "vary": […], "ladder": "2^-12:2^-4", "ladder-steps": 4096,
  // "threshold": 0.1, "figure-by": "method,precision"}, all optional; an axis of "vary" is a text
  // as above or a list of its alternatives. Throws Error naming file and key.
  static SweepPlan from_file(const std::string& path);
  static SweepPlan from_json(std::string_view json, const std::string& origin);

  // Takes the place of the axes that share a key with it.
  void vary(SweepAxis axis);
  // The first axis varies slowest. An axis may also set "ladder", for its combinations only. Throws
  // Error for a combination that makes no sense.
  std::vector<Combination> combinations() const;
  std::vector<std::string> swept_keys() const;  // without "ladder"
};

}  // namespace sigma1
