#include "tools/sigma1/settings.h"

#include <algorithm>

#include "sigma1/base/error.h"

namespace sigma1 {

bool SettingOptions::given(const std::string& key) const {
  return std::ranges::any_of(
      changes, [&](const std::string& change) { return change.starts_with(key + "="); });
}

void add_settings(CLI::App& command, SettingOptions& options,
                  const std::vector<std::string>& keys) {
  command.add_option("--config", options.config, "Settings from a JSON file");
  command
      .add_option_function<std::vector<std::string>>(
          "--set",
          [&options](const std::vector<std::string>& given) {
            options.changes.insert(options.changes.end(), given.begin(), given.end());
          },
          "key=value over the config; `sigma1 train --keys` lists the keys")
      ->type_name("KEY=VALUE");
  for (const std::string& key : keys) {
    for (const ConfigKey& each : config_keys()) {
      if (each.name != key) continue;
      std::string prefix = key + "=";
      command.add_option_function<std::string>(
          "--" + key,
          [&options, prefix](const std::string& text) { options.changes.push_back(prefix + text); },
          std::string(each.help));
    }
  }
}

TrainConfig read_settings(const SettingOptions& options) {
  TrainConfig config =
      options.config.empty() ? TrainConfig() : TrainConfig::from_file(options.config);
  apply_changes(options, config);
  return config;
}

std::vector<std::string> apply_changes(const SettingOptions& options, TrainConfig& config) {
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string> keys;
  for (const std::string& change : options.changes) {
    size_t at = change.find('=');
    if (at == std::string::npos) throw Error("--set: expected key=value, got '{}'", change);
    keys.push_back(change.substr(0, at));
    settings.emplace_back(keys.back(), change.substr(at + 1));
  }
  config.set_all(settings);
  return keys;
}

}  // namespace sigma1
