// `sigma1 bench cuda`: whole training steps on a GPU: settings against each other, and beside what
// PyTorch takes for the same model.
#include <algorithm>

#include "sigma1/backend/devices.h"
#include "sigma1/base/error.h"
#include "sigma1/base/median.h"
#include "sigma1/runtime/product_floor.h"
#include "tools/sigma1/bench.h"
#include "tools/sigma1/bench_peer.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  BenchModel model;
  std::vector<std::string> only;
  std::string device = "cuda", peer, peer_script;
  int warmup = 20, steps = 50, rounds = 20;
  bool with_peer = false, without_floor = false, json = false;
};

const BenchSetting kSettings[] = {{"fp32", "none", "fp32"},
                                  {"unit fp32", "unit", "fp32"},
                                  {"fp16", "none", "fp16"},
                                  {"unit fp16", "unit", "fp16"},
                                  {"unit bf16", "unit", "bf16"},
                                  {"unit fp8", "unit", "fp8"},
                                  {"per-tensor fp8", "per-tensor=current", "fp8"}};

struct Bench {
  BenchSetting setting;
  std::unique_ptr<Session> session;
  std::unique_ptr<ProductFloor> floor;         // none where it was not asked for
  std::vector<double> ms = {}, floor_ms = {};  // of a step, for each round
};

std::vector<BenchSetting> chosen(const std::vector<std::string>& only) {
  std::vector<BenchSetting> settings;
  std::vector<std::string> names;
  for (const BenchSetting& setting : kSettings) {
    names.push_back(setting.name);
    if (only.empty() || std::ranges::find(only, setting.name) != only.end()) {
      settings.push_back(setting);
    }
  }
  for (const std::string& name : only) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw Error("--only: expected some of {}, got '{}'", fmt::join(names, ", "), name);
  }
  return settings;
}

std::unique_ptr<Session> make_session(const BenchSetting& setting, const Options& options,
                                      const Corpus& corpus, const Device& device) {
  TrainConfig config = bench_config(options.model, setting);
  config.rate = 0x1p-14;  // noise cannot be learnt; no setting shall diverge trying
  return std::make_unique<Session>(config, corpus, device);
}

// One round of a setting: steps, and their matrix products alone. The clock stops when the GPU is
// done.
void burst(Bench& bench, int steps) {
  double all = milliseconds([&] {
    Session& session = *bench.session;
    for (int i = 0; i < steps; ++i) {
      session.start_step();
      bool is_last = i + 1 == steps;
      while (session.ahead() >= (is_last ? 1 : session.most_ahead())) session.finish_step();
    }
  });
  bench.ms.push_back(all / steps);
  if (!bench.floor) return;
  double products = milliseconds([&] {
    for (int i = 0; i < steps; ++i) bench.floor->run();
    bench.floor->finish();
  });
  bench.floor_ms.push_back(products / steps);
}

// Rounds of all settings in turns, every second one backwards, so that a disturbance or a drift of
// the clock hits all alike.
std::vector<Bench> measure(const Options& options, const Corpus& corpus, const Device& device) {
  std::vector<Bench> benches;
  for (const BenchSetting& setting : chosen(options.only)) {
    auto session = make_session(setting, options, corpus, device);
    std::unique_ptr<ProductFloor> floor;
    if (!options.without_floor) {
      floor = std::make_unique<ProductFloor>(session->gradients().graph(), device);
    }
    Bench warm{setting, std::move(session), std::move(floor)};
    if (options.warmup > 0) burst(warm, options.warmup);
    benches.push_back({setting, std::move(warm.session), std::move(warm.floor)});
  }
  for (int i = 0; i < options.rounds; ++i) {
    for (Bench& bench : benches) burst(bench, options.steps);
    std::ranges::reverse(benches);
  }
  if (options.rounds % 2 == 1) std::ranges::reverse(benches);
  return benches;
}

// The median over rounds of one time over another of the same round.
BenchRow compare(std::string name, const std::vector<double>& ms,
                 const std::vector<double>& against) {
  std::vector<double> each;
  for (size_t i = 0; i < ms.size(); ++i) each.push_back(ms[i] / against[i]);
  return {std::move(name), median(ms), median(against), median(each)};
}

std::vector<BenchRow> ratios(const std::vector<Bench>& benches) {
  auto find = [&](std::string_view name) -> const Bench* {
    auto found = std::ranges::find_if(benches, [&](auto& b) { return b.setting.name == name; });
    return found == benches.end() ? nullptr : &*found;
  };
  std::vector<BenchRow> rows;
  for (auto [name, against] : {std::pair{"unit fp32", "fp32"},
                               {"unit fp16", "fp16"},
                               {"unit bf16", "unit fp32"},
                               {"unit fp16", "unit fp32"},
                               {"unit fp8", "unit fp32"},
                               {"unit fp8", "unit fp16"},
                               {"per-tensor fp8", "unit fp8"}}) {
    const Bench *a = find(name), *b = find(against);
    if (a == nullptr || b == nullptr) continue;
    rows.push_back(compare(fmt::format("{} / {}", name, against), a->ms, b->ms));
  }
  for (const Bench& bench : benches) {
    if (!bench.floor) continue;
    rows.push_back(
        compare(bench.setting.name + " / its matrix products", bench.ms, bench.floor_ms));
  }
  return rows;
}

double tokens_per_second(const Session& session, double ms) {
  const ModelConfig& size = session.config().size;
  return 1e3 * static_cast<double>(size.batch * size.time) / ms;
}

double gigabytes(const Session& session) {
  Session::Memory memory = session.memory();
  return 1e-9 * static_cast<double>(memory.kept + memory.activations + memory.workspace);
}

void print_result(const std::vector<Bench>& benches, const std::vector<BenchRow>& rows) {
  Table table({"step", "ms", "tokens/s", "GB"});
  for (const Bench& bench : benches) {
    double ms = median(bench.ms);
    table.add({bench.setting.name, fmt::format("{:.4f}", ms),
               fmt::format("{:.0f}", tokens_per_second(*bench.session, ms)),
               fmt::format("{:.2f}", gigabytes(*bench.session))});
  }
  table.print();
  if (rows.empty()) return;
  fmt::print("\n");
  print_rows(rows, 4);
}

Json json_of(const std::vector<PeerRow>& peer) {
  Json list = Json::array();
  for (const PeerRow& row : peer) {
    list.push_back({{"context", row.context},
                    {"variant", row.variant},
                    {"precision", row.precision},
                    {"mode", row.mode},
                    {"ms", row.ms},
                    {"gigabytes", row.gigabytes}});
  }
  return list;
}

Json json_of(const std::vector<Bench>& benches, const std::vector<BenchRow>& rows,
             const std::vector<PeerRow>& peer) {
  Json steps = Json::array();
  const ModelConfig& size = benches.front().session->config().size;
  for (const Bench& bench : benches) {
    double ms = median(bench.ms);
    auto [least, most] = std::ranges::minmax(bench.ms);
    steps.push_back({{"setting", bench.setting.name},
                     {"ms", ms},
                     {"least_ms", least},
                     {"most_ms", most},
                     {"tokens_per_s", tokens_per_second(*bench.session, ms)},
                     {"gigabytes", gigabytes(*bench.session)}});
  }
  return {{"context", size.context}, {"depth", size.depth},     {"vocabulary", size.vocabulary},
          {"steps", steps},          {"ratios", json_of(rows)}, {"peer", json_of(peer)}};
}

void run(const Options& options) {
  for (const BenchSetting& setting : chosen(options.only)) {
    bench_config(options.model, setting).check();
  }
  const Device& device = find_device(options.device);
  // Before our own memory is taken, and before minutes are spent when it is missing.
  std::vector<PeerRow> peer;
  if (options.with_peer)
    peer = peer_rows(options.peer, options.peer_script, options.model, options.device);
  Corpus corpus = bench_corpus(options.model);
  std::vector<Bench> benches = measure(options, corpus, device);
  std::vector<BenchRow> rows = ratios(benches);
  std::vector<BenchTime> times;
  for (const Bench& bench : benches) times.push_back({bench.setting.name, median(bench.ms)});
  const TrainConfig& config = benches.front().session->config();
  std::string context = config.model == "char_lm" ? options.model.context : config.model;
  std::ranges::copy(peer_ratios(times, peer, context), std::back_inserter(rows));
  if (options.json) return print_json(json_of(benches, rows, peer));
  print_result(benches, rows);
}

}  // namespace

void add_bench_cuda(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      bench.add_subcommand("cuda", "Training steps of a model on a GPU, beside PyTorch's");
  add_model_options(*command, options->model);
  command->add_option("--device", options->device, "cuda or cuda:N; cpu, to try it out")
      ->capture_default_str();
  command->add_option("--only", options->only, "Settings to measure, e.g. \"fp16,unit fp16\"")
      ->delimiter(',');
  auto count = [&](const char* name, int& value, int least, const char* help) {
    command->add_option(name, value, help)->check(CLI::Range(least, 100000))->capture_default_str();
  };
  count("--warmup", options->warmup, 0, "Steps before the clock starts");
  count("--steps", options->steps, 1, "Steps of a burst, timed together");
  count("--rounds", options->rounds, 1, "Bursts of each setting, of which the median counts");
  command->add_flag("--no-floor", options->without_floor,
                    "Without the products alone, whose factors take memory beside a large model");
  CLI::Option* peer = command->add_option(
      "--peer", options->peer, "Beside PyTorch: measured now, or times from a JSON file");
  peer->expected(0, 1);
  command->add_option("--peer-script", options->peer_script,
                      "What measures PyTorch [bench/peer/MODEL_torch.py]");
  command->add_flag(
      "--json", options->json,
      "Print JSON: steps, ratios as {name, ms, floor_ms, ratio}, and PyTorch's times");
  command->footer(
      "Examples:\n  sigma1 bench cuda\n  sigma1 bench cuda --context conv --peer\n"
      "  sigma1 bench cuda --set model=gpt --set size=124M --set batch=32 --set optimiser=adamw\n"
      "      --set align=none --vocabulary 50304 --only \"unit fp8,unit fp16\"\n"
      "  sigma1 bench cuda --set model=bert --set size=large --set batch=256 --set optimiser=lamb\n"
      "      --set align=none --vocabulary 30528 --steps 5 --peer\n"
      "      --only \"fp16,unit fp16,unit fp8,per-tensor fp8\"\n"
      "  sigma1 bench cuda --only \"fp16,unit fp16\" --rounds 50 --json");
  command->callback([options, peer] {
    options->with_peer = peer->count() > 0;
    run(*options);
  });
}

}  // namespace sigma1
