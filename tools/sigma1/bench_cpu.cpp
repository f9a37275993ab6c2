// `sigma1 bench cpu`: a step against its matrix products alone, and settings against each other.
#include <algorithm>
#include <cmath>
#include <map>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/runtime/gemm_floor.h"
#include "sigma1/train/model_scales.h"
#include "sigma1/train/scale_log.h"
#include "tools/sigma1/bench.h"

namespace sigma1 {
namespace {

struct Options {
  BenchModel model;
  std::string profile;
  int rounds = 7, threads = 0;
  bool json = false;
};

const BenchSetting kSettings[] = {{"fp32", "none", "fp32"},
                                  {"unit fp32", "unit", "fp32"},
                                  {"unit bf16", "unit", "bf16"},
                                  {"unit fp16", "unit", "fp16"},
                                  {"unit fp8", "unit", "fp8"}};

struct Bench {
  BenchSetting setting;
  std::unique_ptr<Session> session;
  double best_ms = INFINITY;
};

std::unique_ptr<Session> make_session(const BenchSetting& setting, const Options& options,
                                      const Corpus& corpus) {
  return std::make_unique<Session>(bench_config(options.model, setting), corpus);
}

// All that a record of every tensor costs, as the trainer makes it.
void look(const Session& session, ScaleProbe& probe, const Corpus& corpus) {
  copy_state(session, probe);
  write_batch(probe.store(), step_batch(session.config(), corpus, session.step()));
  scales_line(session.step(), probe.measure());
}

// Rounds of all settings, one after another, so that a disturbance hits all alike.
std::vector<BenchRow> measure(const Options& options, const Corpus& corpus) {
  std::vector<Bench> benches;
  for (const BenchSetting& setting : kSettings) {
    benches.push_back({setting, make_session(setting, options, corpus)});
    benches.back().session->train_step();
  }
  double floor = INFINITY, probe_ms = INFINITY;
  const Session& probed = *benches.back().session;
  ScaleProbe probe(probed.config(), probed.alignment(), {});
  for (int i = 0; i < options.rounds; ++i) {
    floor = std::min(floor, 1e3 * gemm_floor(benches[0].session->gradients(), 1));
    for (Bench& bench : benches) {
      double step = milliseconds([&] { bench.session->train_step(); });
      bench.best_ms = std::min(bench.best_ms, step);
    }
    probe_ms =
        std::min(probe_ms, milliseconds([&] { look(*benches.back().session, probe, corpus); }));
  }
  double fp32 = benches[0].best_ms, unit = benches[1].best_ms;
  std::vector<BenchRow> rows{{"fp32 step / its matrix products", fp32, floor},
                             {"unit-scaled fp32 step / unscaled", unit, fp32}};
  for (size_t i = 2; i < benches.size(); ++i) {
    rows.push_back({benches[i].setting.name + " step / unit fp32", benches[i].best_ms, unit});
  }
  double hundred = 100 * benches.back().best_ms;
  rows.push_back({"100 unit fp8 steps with one probe / without", hundred + probe_ms, hundred});
  return rows;
}

struct Profile {
  struct Op {
    double milliseconds = 0;
    int nodes = 0;
  };
  std::map<std::string_view, Op> ops;
  MemoryUse memory;
};

Profile profile_of(const Options& options, const Corpus& corpus) {
  auto setting = std::ranges::find(kSettings, options.profile, &BenchSetting::name);
  if (setting == std::end(kSettings)) {
    throw Error("--profile: expected fp32, unit fp32, unit bf16, unit fp16 or unit fp8, got '{}'",
                options.profile);
  }
  std::unique_ptr<Session> session = make_session(*setting, options, corpus);
  session->train_step();
  session->train_step();
  Profile profile;
  for (const InstructionTime& each : session->gradients().profile(1)) {
    profile.ops[each.op].milliseconds += each.milliseconds;
    ++profile.ops[each.op].nodes;
  }
  profile.memory = session->gradients().memory();
  return profile;
}

void print_profile_json(const Profile& profile) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const auto& [op, sum] : profile.ops) {
    ops.push_back({{"op", op}, {"nodes", sum.nodes}, {"ms", sum.milliseconds}});
  }
  print_json({{"ops", ops},
              {"arena", profile.memory.arena},
              {"lower_bound", profile.memory.lower_bound},
              {"workspace", profile.memory.workspace}});
}

void print_profile(const Profile& profile) {
  Table table({"op", "nodes", "ms"});
  for (const auto& [op, sum] : profile.ops) {
    table.add(
        {std::string(op), fmt::to_string(sum.nodes), fmt::format("{:.2f}", sum.milliseconds)});
  }
  table.print();
  fmt::print("arena {:.1f} MB, at least {:.1f} MB; workspace {:.1f} MB\n",
             static_cast<double>(profile.memory.arena) / 1e6,
             static_cast<double>(profile.memory.lower_bound) / 1e6,
             static_cast<double>(profile.memory.workspace) / 1e6);
}

void run(const Options& options) {
  set_thread_count(options.threads);
  Corpus corpus = bench_corpus(options.model);
  if (!options.profile.empty()) {
    Profile profile = profile_of(options, corpus);
    return options.json ? print_profile_json(profile) : print_profile(profile);
  }
  std::vector<BenchRow> rows = measure(options, corpus);
  if (options.json) return print_json(json_of(rows));
  print_rows(rows, 1);
}

}  // namespace

void add_bench_cpu(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "cpu", "A training step of the character model against its matrix products alone");
  add_model_options(*command, options->model);
  command
      ->add_option("--rounds", options->rounds, "Steps of each setting, of which the best counts")
      ->check(CLI::Range(1, 1000));
  command->add_option("--threads", options->threads, "Threads; 0: all cores");
  command->add_option("--profile", options->profile,
                      "Instead: where the step of one setting spends its time, e.g. \"unit fp8\"");
  command->add_flag(
      "--json", options->json,
      "Print JSON: a list of {name, ms, floor_ms, ratio}; of a profile, its ops and bytes");
  command->footer("Examples:\n  sigma1 bench cpu\n  sigma1 bench cpu --profile \"unit fp8\"");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
