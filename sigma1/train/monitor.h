// Watches what a run's formats lose while it trains, tells a person once for each tensor, and says
// what to do; or which matrix products need more bits.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "sigma1/runtime/probe.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

// A line of a run's events.jsonl.
struct RunEvent {
  int64_t step = 0;
  std::string kind;                  // saturation, underflow, demotion, skipped step
  std::string tensor, role, format;  // what it is about, where it is a tensor
  double share = 0;
  std::string text;  // a sentence for a person
};

std::string event_json(const RunEvent& event);

class Monitor {
 public:
  explicit Monitor(const TrainConfig& config) : config_(config) {}

  // What an earlier part of the run has told already, as lines of events.jsonl.
  void remember(std::string_view event_json);

  // What is new: a tensor is named once for what it loses on either side.
  std::vector<RunEvent> check(int64_t step, std::span<const TensorScale> tensors);

  // A line of monitor.jsonl: every tensor that loses anything.
  static std::string line(int64_t step, std::span<const TensorScale> tensors);

  struct Demotion {
    std::string product;
    const TensorScale* because = nullptr;
  };
  // Products that read a tensor in 8 bits or fewer which saturates beyond the limit; each once.
  std::vector<Demotion> demotions(std::span<const TensorScale> tensors) const;
  static RunEvent event_of(int64_t step, const Demotion& demotion);

 private:
  RunEvent saturation(int64_t step, const TensorScale& tensor) const;
  RunEvent underflow(int64_t step, const TensorScale& tensor) const;

  TrainConfig config_;
  std::set<std::string> told_;
};

}  // namespace sigma1
