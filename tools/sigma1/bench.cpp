// `sigma1 bench`: how near a training step is to the least it can take, all in one run, as ratios:
// machines differ, ratios less.
#include "tools/sigma1/bench.h"

#include "sigma1/train/random_inputs.h"
#include "tools/sigma1/settings.h"

namespace sigma1 {

void add_model_options(CLI::App& command, BenchModel& model) {
  command.add_option("--context", model.context, "attention, conv or rnn")->capture_default_str();
  command.add_option("--depth", model.depth, "Layers [8, of rnn 2]")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  command.add_option("--vocabulary", model.vocabulary, "Characters, or tokens")
      ->check(CLI::Range(int64_t{2}, int64_t{65535}))
      ->capture_default_str();
  command.add_option("--set", model.changes, "key=value, another setting of `sigma1 train --keys`");
}

TrainConfig bench_config(const BenchModel& model, const BenchSetting& setting) {
  constexpr int64_t kDepth = 8, kRecurrentDepth = 2;
  TrainConfig config;
  config.method = setting.method;
  config.precision = setting.precision;
  config.size.context = model.context;
  config.size.depth = model.depth > 0          ? model.depth
                      : model.context == "rnn" ? kRecurrentDepth
                                               : kDepth;
  apply_changes({"", model.changes}, config);
  return config;
}

Corpus bench_corpus(const BenchModel& model) {
  return random_corpus(bench_config(model, {"", "none", "fp32"}), model.vocabulary);
}

nlohmann::ordered_json json_of(const std::vector<BenchRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    list.push_back(
        {{"name", row.name}, {"ms", row.ms}, {"floor_ms", row.floor_ms}, {"ratio", row.ratio}});
  }
  return list;
}

void print_rows(const std::vector<BenchRow>& rows, int digits) {
  Table table({"what", "ms", "against, ms", "ratio"});
  for (const BenchRow& row : rows) {
    table.add({row.name, fmt::format("{:.{}f}", row.ms, digits),
               fmt::format("{:.{}f}", row.floor_ms, digits), fmt::format("{:.3f}", row.ratio)});
  }
  table.print();
}

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Speed, as ratios measured in one run");
  bench->require_subcommand(1);
  bench->footer("Examples:\n  sigma1 bench cpu\n  sigma1 bench cuda --context conv");
  add_bench_cpu(*bench);
  add_bench_cuda(*bench);
}

}  // namespace sigma1
