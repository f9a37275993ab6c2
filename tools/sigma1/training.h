// A training run as the command line starts one: progress, warnings, a signal that stops it, and
// the result for people or programs. Shared by the commands that train.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sigma1/train/corpus.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

struct TrainingOptions {
  std::string folder, cache, device = "auto";
  bool resume = false, json = false;
  int threads = 0;
};

void add_training_options(CLI::App& command, TrainingOptions& options);
void use_threads(const TrainingOptions& options);
// In every rank, on what the config names, unless a corpus is given.
void run_training(const TrainConfig& config, TrainingOptions options,
                  const Corpus* corpus = nullptr);

}  // namespace sigma1
