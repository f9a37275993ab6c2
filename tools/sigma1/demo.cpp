// `sigma1 demo`: the paper's first experiment in three minutes. One small model, trained six ways;
// what each reached, and how many of its gradients its formats turned to zero.
#include <filesystem>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/report/figures.h"
#include "sigma1/report/run_report.h"
#include "sigma1/train/progress.h"
#include "sigma1/train/trainer.h"
#include "sigma1/train/underflow.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"
#include "tools/sigma1/stop_signal.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string text, folder;
  int64_t steps = 100;
  bool json = false;
};

struct Way {
  std::string name, method, precision;
};

const Way kWays[] = {{"FP32 regular", "none", "fp32"},
                     {"FP16 regular", "none", "fp16"},
                     {"FP16 loss-scaled", "loss-scale=2048", "fp16"},
                     {"FP16 unit", "unit", "fp16"},
                     {"FP8 regular", "none", "fp8"},
                     {"FP8 unit", "unit", "fp8"}};

// Many characters a step, as in real training: the mean over them is what makes regular gradients
// small.
TrainConfig config_of(const Way& way, const Options& options) {
  TrainConfig config;
  config.train_text = options.text;
  config.method = way.method;
  config.precision = way.precision;
  config.size.batch = 64;
  config.size.time = 128;
  config.size.width = 64;
  config.size.hidden = 256;
  config.size.depth = 4;
  config.context = 16;
  config.steps = options.steps;
  config.schedule = "linear";
  config.warmup = options.steps / 10;
  config.evaluate_every = options.steps;
  config.evaluate_limit = 100000;
  config.keep_checkpoints = 1;
  config.probe_every = options.steps;
  return config;
}

struct Outcome {
  Way way;
  double bits_per_character = NAN, seconds = 0;
  Underflow underflow;
  std::string failure;
  MetricCurve curve;
};

fs::path folder_of(const Way& way, const Options& options) {
  return fs::path(options.folder) / (way.precision + "_" + way.method);
}

Outcome run_way(const Way& way, const Options& options, const Corpus& corpus,
                const StopSignal& stop) {
  TrainConfig config = config_of(way, options);
  fs::path folder = folder_of(way, options);
  fs::remove_all(folder);
  Outcome outcome;
  outcome.way = way;
  try {
    RunOptions run_options;
    run_options.folder = folder;
    run_options.terminal = stderr;
    run_options.stop = [&] { return stop.arrived(); };
    run_options.default_probe = "all";
    RunResult result = train(config, run_options, corpus);
    if (!result.finished) throw Error("stopped at step {}", result.steps);
    outcome.bits_per_character = result.valid.bits_per_character;
    outcome.seconds = result.seconds;
    Session session(latest_checkpoint(folder / "checkpoints"), &corpus);
    Batch batch =
        training_batch(corpus.train, config.size.batch, 1, 0, {config.size.time, config.context});
    outcome.underflow = measure_underflow(session, batch);
  } catch (const NotFinite& error) {
    outcome.failure = error.what();
  }
  outcome.curve = read_metric(folder / "metrics.jsonl", "loss");
  return outcome;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

void print_table(const std::vector<Outcome>& outcomes) {
  Table table({"trained as", "bits per character", "gradients lost", "worst tensor loses", "time"});
  for (const Outcome& each : outcomes) {
    if (!each.failure.empty()) {
      table.add({each.way.name, "failed", each.failure, "", ""});
      continue;
    }
    table.add({each.way.name, fmt::format("{:.3f}", each.bits_per_character),
               percent(each.underflow.lost), percent(each.underflow.worst().lost),
               format_duration(each.seconds)});
  }
  table.print();
}

// In words, and only what was measured.
void print_findings(const std::vector<Outcome>& outcomes) {
  const Outcome &fp32 = outcomes[0], &half = outcomes[1], &half_unit = outcomes[3],
                &eighth = outcomes[4], &eighth_unit = outcomes[5];
  constexpr double kNoise = 0.01;
  auto against = [&](const Outcome& each) {
    double apart = each.bits_per_character - fp32.bits_per_character;
    if (!each.failure.empty()) return std::string("fails");
    if (std::fabs(apart) < kNoise) return std::string("is as good as FP32");
    return fmt::format("is {:.3f} bits {} than FP32", std::fabs(apart),
                       apart > 0 ? "worse" : "better");
  };
  auto lost = [](const Outcome& each) {
    return fmt::format("turns {} of its gradients to zero (up to {} of one tensor)",
                       percent(each.underflow.lost), percent(each.underflow.worst().lost));
  };
  fmt::print("\nRegular FP16 {} and {}.\n", lost(half), against(half));
  fmt::print("Regular FP8 {} and {}.\n", lost(eighth), against(eighth));
  fmt::print("Unit scaling needs no loss scale: FP16 {}, FP8 {}.\n", against(half_unit),
             against(eighth_unit));
}

void print_outcomes_json(const std::vector<Outcome>& outcomes) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Outcome& each : outcomes) {
    list.push_back({{"name", each.way.name},
                    {"method", each.way.method},
                    {"precision", each.way.precision},
                    {"valid_bpc", json_number(each.bits_per_character)},
                    {"gradients_lost", each.underflow.lost},
                    {"worst_tensor", each.underflow.worst().name},
                    {"worst_tensor_lost", each.underflow.worst().lost},
                    {"seconds", each.seconds},
                    {"failure", each.failure}});
  }
  print_json(list);
}

void run(const Options& options) {
  if (fs::exists(options.folder) && !fs::is_directory(options.folder))
    throw Error("--out: expected a folder, got the file {}", options.folder);
  Corpus corpus = load_corpus(options.text, "", "");
  std::vector<Outcome> outcomes;
  std::vector<NamedCurve> curves;
  std::vector<fs::path> folders;
  StopSignal stop;
  for (const Way& way : kWays) {
    if (is_terminal(stderr)) fmt::print(stderr, "{}\n", way.name);
    outcomes.push_back(run_way(way, options, corpus, stop));
    curves.push_back({way.name, outcomes.back().curve});
    if (holds_run(folder_of(way, options))) folders.push_back(folder_of(way, options));
  }
  fs::path figure = fs::path(options.folder) / "loss.svg";
  write_file(figure.string(), loss_curves_figure(curves, "training loss (nats)", 10));
  fs::path page = fs::path(options.folder) / "report.html";
  write_file(page.string(), run_report(folders, "One model trained six ways"));
  if (options.json) return print_outcomes_json(outcomes);
  fmt::print("One model of 4 layers, {} steps of 8192 characters of {} ({} characters):\n\n",
             options.steps, options.text, corpus.vocabulary.known());
  print_table(outcomes);
  print_findings(outcomes);
  fmt::print("Loss curves: {}\nEvery tensor's scale, from start to end: {}\n", figure.string(),
             page.string());
}

}  // namespace

void add_demo(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("demo", "Train one small model six ways and compare what each loses");
  command->add_option("text", options->text, "A text of a megabyte or more")->required();
  command->add_option("--out", options->folder, "Folder for the runs, the figure and the report")
      ->required();
  command->add_option("--steps", options->steps, "Steps of each run")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}));
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Example:\n  sigma1 demo book.txt --out build/demo");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
