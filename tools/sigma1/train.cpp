// `sigma1 train`: a run from a config, settings over it, and a folder to keep it in.
#include <filesystem>
#include <optional>

#include "sigma1/backend/devices.h"
#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/train/progress.h"
#include "sigma1/train/trainer.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"
#include "tools/sigma1/run_ranks.h"
#include "tools/sigma1/settings.h"
#include "tools/sigma1/stop_signal.h"

namespace sigma1 {
namespace {

struct Options {
  SettingOptions settings;
  std::string folder, cache, device = "auto";
  bool resume = false, json = false, keys = false;
  int threads = 0;
};

void print_keys() {
  Table table({"key", "default", "what it is"});
  nlohmann::ordered_json defaults = nlohmann::ordered_json::parse(TrainConfig().to_json());
  for (const ConfigKey& key : config_keys()) {
    const auto& value = defaults[std::string(key.name)];
    table.add({std::string(key.name), value.is_string() ? value.get<std::string>() : value.dump(),
               std::string(key.help)});
  }
  table.print();
}

void report(const RunResult& result, const Options& options) {
  if (options.json) {
    nlohmann::ordered_json json{{"run", options.folder},
                                {"steps", result.steps},
                                {"finished", result.finished},
                                {"skipped", result.skipped},
                                {"seconds", result.seconds}};
    if (result.finished) {
      json["valid_loss"] = json_number(result.valid.loss);
      json["valid_bpc"] = json_number(result.valid.bits_per_character);
    }
    return print_json(json);
  }
  if (!result.finished) {
    fmt::print("stopped at step {}, saved; go on with: sigma1 train --run {} --resume\n",
               result.steps, options.folder);
    return;
  }
  fmt::print("{} steps in {}: {} of validation text\n", result.steps,
             format_duration(result.seconds), to_string(result.valid));
  fmt::print("run: {}\n", options.folder);
  if (result.skipped > 0)
    fmt::print("{} steps skipped by automatic loss scaling\n", result.skipped);
}

// A folder that says what is in it, and is not there yet.
std::string new_folder(const TrainConfig& config) {
  std::string name = fmt::format("runs/{}_{}_{}", config.model, config.method, config.precision);
  std::string folder = name;
  for (int i = 2; std::filesystem::exists(folder); ++i) folder = fmt::format("{}_{}", name, i);
  return folder;
}

// A run goes on with its own settings; saying them again, as in the command that began it, is fine.
TrainConfig resumed_config(const Options& options) {
  if (options.folder.empty()) throw Error("--resume: expected --run with the folder of the run");
  TrainConfig config = run_config(options.folder);
  if (!options.settings.given()) return config;
  auto own = nlohmann::ordered_json::parse(config.to_json());
  auto asked = nlohmann::ordered_json::parse(read_settings(options.settings).to_json());
  for (const auto& [key, value] : own.items()) {
    bool left_to_the_run = key == "ranks" && asked[key] == 0;
    if (asked[key] == value || left_to_the_run) continue;
    throw Error("--resume: the run in {} has {}={}, and {} was asked for; leave settings out",
                options.folder, key, value.dump(), asked[key].dump());
  }
  return config;
}

void run_rank(Options options) {
  TrainConfig config;
  const Device* device = nullptr;
  together(ranks(), [&] {
    config = options.resume ? resumed_config(options) : read_settings(options.settings);
    if (options.folder.empty() && ranks().rank() == 0) options.folder = new_folder(config);
    device = &find_device(options.device);
    set_thread_count(options.threads == 0 ? threads_of_rank() : options.threads);
  });
  options.folder = broadcast_text(ranks(), options.folder);
  // Only once a step was made is there something to save: until then a signal ends the program.
  std::optional<StopSignal> stop;
  auto stops = [&] {
    if (!stop) stop.emplace();
    return stop->arrived();
  };
  // Into a file goes only what someone must know; what a GPU has to hold is worth a line there too.
  bool tells = is_terminal(stderr) || device != &cpu_device() || ranks().size() > 1;
  auto warn = [](const std::string& text) {
    if (ranks().rank() == 0) fmt::print(stderr, "sigma1: {}\n", text);
  };
  auto tell = [&](const std::string& text) {
    if (tells) warn(text);
  };
  RunOptions run_options{.folder = options.folder,
                         .resume = options.resume,
                         .cache_folder = options.cache,
                         .device = device,
                         .terminal = stderr,
                         .stop = stops,
                         .warn = warn,
                         .tell = tell,
                         .default_probe = "all"};
  RunResult result = train(config, run_options);
  if (ranks().rank() == 0) report(result, options);
}

void run(const Options& options) {
  if (options.keys) return print_keys();
  run_ranks([&] { run_rank(options); });
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train a model on a text");
  add_settings(*command, options->settings);
  command->add_option(
      "--run", options->folder,
      "Folder of the run: made, or resumed; without one, runs/MODEL_METHOD_PRECISION");
  command->add_flag("--resume", options->resume, "Go on with the run in the folder");
  command->add_flag_callback(
      "--demote", [options] { options->settings.changes.emplace_back("demote=true"); },
      "Move matrix products whose inputs saturate from 8 bits to fp16");
  command->add_option("--cache", options->cache, "Folder to keep token ids in between runs");
  command->add_option("--device", options->device, kDeviceHelp)->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: all cores");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_flag("--keys", options->keys, "List all settings and their defaults");
  command->footer(
      "Examples:\n"
      "  sigma1 train --train corpus.txt --run runs/a\n"
      "  sigma1 train --train corpus.txt --method unit --precision fp8 --set steps=2000 --run "
      "runs/b\n"
      "  sigma1 train --train tokens.bin --set model=gpt --set size=124M --run runs/gpt\n"
      "  mpirun -np 4 sigma1 train --train corpus.txt --run runs/four\n"
      "  sigma1 train --config runs/b/config.json --set rate=2^-6 --run runs/c\n"
      "  sigma1 train --run runs/c --resume");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
