// The settings of a training run on the command line: a config file, --set key=value over it, and
// the frequent ones as flags of their own.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "sigma1/train/train_config.h"

namespace sigma1 {

struct SettingOptions {
  std::string config;
  std::vector<std::string> changes;  // key=value: --set in the order given, then the flags

  bool given() const { return !config.empty() || !changes.empty(); }
  bool given(const std::string& key) const;  // by --set or its own flag
};

// `keys`: those with a flag of their own.
void add_settings(CLI::App& command, SettingOptions& options,
                  const std::vector<std::string>& keys = {
                      "train", "valid", "method", "scheme", "align", "parametrization", "precision",
                      "steps", "rate", "seed", "accumulate", "recompute"});

// Throws Error naming the file or key.
TrainConfig read_settings(const SettingOptions& options);
// What --set and its like say, over a config; gives the keys.
std::vector<std::string> apply_changes(const SettingOptions& options, TrainConfig& config);

}  // namespace sigma1
