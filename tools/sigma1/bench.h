// What the benches of training steps share: the model at its settings, and how results are shown.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sigma1/train/session.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"

namespace sigma1 {

void add_bench_cpu(CLI::App& bench);
void add_bench_cuda(CLI::App& bench);

// The model that is timed: a character model unless `changes` say otherwise.
struct BenchModel {
  std::string context = "attention";
  int64_t depth = 0;  // 0: the paper's, 8, of recurrence 2
  int64_t vocabulary = 5008;
  std::vector<std::string> changes;  // key=value, over all that no flag says
};

void add_model_options(CLI::App& command, BenchModel& model);

// A way to train it.
struct BenchSetting {
  std::string name, method, precision;
};

TrainConfig bench_config(const BenchModel& model, const BenchSetting& setting);
Corpus bench_corpus(const BenchModel& model);

// One time against another.
struct BenchRow {
  std::string name;
  double ms, floor_ms;
  double ratio = ms / floor_ms;
};

// {name, ms, floor_ms, ratio} each.
nlohmann::ordered_json json_of(const std::vector<BenchRow>& rows);
void print_rows(const std::vector<BenchRow>& rows, int digits);

template <class Action>
double milliseconds(Action action) {
  auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace sigma1
