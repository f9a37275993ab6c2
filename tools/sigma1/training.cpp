#include "tools/sigma1/training.h"

#include <filesystem>
#include <optional>

#include "sigma1/backend/devices.h"
#include "sigma1/base/communicator.h"
#include "sigma1/base/parallel.h"
#include "sigma1/train/progress.h"
#include "sigma1/train/trainer.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"
#include "tools/sigma1/run_ranks.h"
#include "tools/sigma1/stop_signal.h"

namespace sigma1 {
namespace {

void report(const RunResult& result, const TrainingOptions& options) {
  if (options.json) {
    nlohmann::ordered_json json{{"run", options.folder},
                                {"steps", result.steps},
                                {"finished", result.finished},
                                {"skipped", result.skipped},
                                {"seconds", result.seconds}};
    if (result.finished) {
      json["valid_loss"] = json_number(result.valid.loss);
      json["valid_bpc"] = json_number(result.valid.bits_per_character);
      for (const auto& [name, value] : result.valid.parts)
        json["valid_" + name] = json_number(value);
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

}  // namespace

void add_training_options(CLI::App& command, TrainingOptions& options) {
  command.add_option(
      "--run", options.folder,
      "Folder of the run: made, or resumed; without one, runs/MODEL_METHOD_PRECISION");
  command.add_option("--device", options.device, kDeviceHelp)->capture_default_str();
  command.add_option("--threads", options.threads, "Threads; 0: all cores");
  command.add_flag("--json", options.json, "Print the result as JSON");
}

void use_threads(const TrainingOptions& options) {
  set_thread_count(options.threads == 0 ? threads_of_rank() : options.threads);
}

void run_training(const TrainConfig& config, TrainingOptions options, const Corpus* corpus) {
  const Device* device = nullptr;
  together(ranks(), [&] {
    device = &find_device(options.device);
    if (options.folder.empty() && ranks().rank() == 0) options.folder = new_folder(config);
    use_threads(options);
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
  RunResult result = corpus ? train(config, run_options, *corpus) : train(config, run_options);
  if (ranks().rank() == 0) report(result, options);
}

}  // namespace sigma1
