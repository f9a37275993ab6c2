// A run in a folder: trains, validates, writes metrics, curves and checkpoints, and goes on where
// it was stopped. With several ranks all run it; the first writes.
//
//   RUN/config.json   settings              machine.json   what it ran on
//       metrics.jsonl losses and rates      scales.jsonl   every tensor, at times
//       events.jsonl  what was told         monitor.jsonl  what formats lost
//       events/       for TensorBoard       checkpoints/step-….safetensors
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>

#include "sigma1/train/run_folder.h"
#include "sigma1/train/session.h"

namespace sigma1 {

struct RunOptions {
  std::filesystem::path folder;
  bool resume = false;
  std::string cache_folder = {};  // of token ids; none when empty
  const Device* device = &cpu_device();
  std::FILE* terminal = nullptr;    // for progress; nothing is shown when null or not a terminal
  std::function<bool()> stop = {};  // asked after every step: save and leave?
  std::function<void(int64_t step)> stepped = [](int64_t) {};  // told after every step
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  std::function<void(const std::string&)> tell = [](const std::string&) {};  // no trouble
  std::string default_probe = "none";  // tensors to record where the config does not say
};

struct RunResult {
  int64_t steps = 0;
  bool finished = false;  // false: stopped before the last step
  Evaluation valid;       // after the last step, when finished
  int64_t skipped = 0;    // steps that automatic loss scaling left out
  double seconds = 0;
};

// Starts a run in a new or empty folder, or resumes the one that is there: then `config` is the
// run's own, and must be given as such. Throws Error for a folder that holds another run.
RunResult train(const TrainConfig& config, const RunOptions& options);
// The same on a text that is loaded already.
RunResult train(const TrainConfig& config, const RunOptions& options, const Corpus& corpus);

}  // namespace sigma1
