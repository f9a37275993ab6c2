// The rates of a ladder, and how far up it is worth going.
#include <algorithm>
#include <limits>

#include "sigma1/train/sweep_plan.h"

namespace sigma1 {

std::vector<double> Ladder::rates() const {
  if (start == 0) return {0};
  std::vector<double> result;
  double margin = 1 + 1e-9;  // for limits that decimals cannot hit
  double rate = start;
  while (rate <= limit * margin) {
    result.push_back(rate);
    rate *= 2;
  }
  return result;
}

LadderWalk::LadderWalk(const Ladder& ladder)
    : threshold_(ladder.threshold),
      best_(std::numeric_limits<double>::infinity()),
      rates_(ladder.rates()) {}

std::optional<double> LadderWalk::next() const {
  return at_ < rates_.size() ? std::optional(rates_[at_]) : std::nullopt;
}

void LadderWalk::saw(const RunOutcome& outcome) {
  ++at_;
  if (outcome.diverged || outcome.valid_bpc > best_ + threshold_) {
    at_ = rates_.size();
  } else {
    best_ = std::min(best_, outcome.valid_bpc);
  }
}

int64_t LadderWalk::most_left() const { return static_cast<int64_t>(rates_.size() - at_); }

}  // namespace sigma1
