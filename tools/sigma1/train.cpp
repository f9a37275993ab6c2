// `sigma1 train`: a run from a config, settings over it, and a folder to keep it in.
#include <algorithm>

#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/train/run_folder.h"
#include "sigma1/train/trainer.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"
#include "tools/sigma1/run_ranks.h"
#include "tools/sigma1/settings.h"
#include "tools/sigma1/training.h"

namespace sigma1 {
namespace {

struct Options {
  SettingOptions settings;
  TrainingOptions training;
  bool keys = false;
};

void print_keys(bool as_json) {
  nlohmann::ordered_json defaults = nlohmann::ordered_json::parse(TrainConfig().to_json());
  if (as_json) {
    auto keys = nlohmann::ordered_json::array();
    for (const ConfigKey& key : config_keys()) {
      std::string name(key.name);
      keys.push_back({{"key", name}, {"default", defaults[name]}, {"help", key.help}});
    }
    return print_json(keys);
  }
  Table table({"key", "default", "what it is"});
  for (const ConfigKey& key : config_keys()) {
    const auto& value = defaults[std::string(key.name)];
    table.add({std::string(key.name), value.is_string() ? value.get<std::string>() : value.dump(),
               std::string(key.help)});
  }
  table.print();
}

// A run goes on with its own settings; saying them again, as in the command that began it, is fine.
TrainConfig resumed_config(const Options& options) {
  const std::string& folder = options.training.folder;
  if (folder.empty()) throw Error("--resume: expected --run with the folder of the run");
  check_folder(folder, true);
  TrainConfig config = run_config(folder), given;
  bool says_all = !options.settings.config.empty();
  if (says_all) given = TrainConfig::from_file(options.settings.config);
  std::vector<std::string> said = apply_changes(options.settings, given);
  for (const auto& [key, own, asked] : differences(config, given)) {
    bool left_to_the_run = (!says_all && std::ranges::find(said, key) == said.end()) ||
                           (key == "ranks" && given.ranks == 0);
    if (left_to_the_run) continue;
    throw Error("--resume: the run in {} has {}={}, and {} was asked for; leave settings out",
                folder, key, own, asked);
  }
  return config;
}

void run(const Options& options) {
  if (options.keys) return print_keys(options.training.json);
  run_ranks([&] {
    TrainConfig config;
    together(ranks(), [&] {
      config = options.training.resume ? resumed_config(options) : read_settings(options.settings);
    });
    run_training(config, options.training);
  });
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train a model on a text");
  add_settings(*command, options->settings);
  add_training_options(*command, options->training);
  command->add_flag("--resume", options->training.resume, "Go on with the run in the folder");
  command->add_option_function<std::string>(
      "--init",
      [options](const std::string& path) { options->settings.changes.push_back("init=" + path); },
      "Checkpoint or run whose weights to begin with");
  command->add_flag_callback(
      "--demote", [options] { options->settings.changes.emplace_back("demote=true"); },
      "Move matrix products whose inputs saturate from 8 bits to fp16");
  command->add_option("--cache", options->training.cache,
                      "Folder to keep token ids in between runs");
  command->add_flag("--keys", options->keys, "List all settings and their defaults");
  command->footer(
      "Examples:\n"
      "  sigma1 train --train corpus.txt --run runs/a\n"
      "  sigma1 train --train corpus.txt --method unit --precision fp8 --set steps=2000 --run "
      "runs/b\n"
      "  sigma1 train --train tokens.bin --set model=gpt --set size=124M --run runs/gpt\n"
      "  sigma1 train --train wiki128.bert --set model=bert --set size=base --run runs/bert\n"
      "  mpirun -np 4 sigma1 train --train corpus.txt --run runs/four\n"
      "  sigma1 train --config runs/b/config.json --set rate=2^-6 --run runs/c\n"
      "  sigma1 train --run runs/c --resume");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
