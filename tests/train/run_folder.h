// Whole tiny runs in folders of their own, and what they leave there.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "sigma1/base/file.h"
#include "sigma1/train/trainer.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {

class RunFolderTest : public TemporaryFolderTest {
 protected:
  using Json = nlohmann::ordered_json;

  static std::set<std::string> names_in(const std::filesystem::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  // Twenty steps, with a validation every five.
  TrainConfig config(Settings settings = {}) {
    TrainConfig result = tiny_config({{"steps", "20"}, {"evaluate-every", "5"}});
    for (const auto& [key, value] : settings) result.set(key, value);
    result.train_text = write("text.txt", tiny_text());
    return result;
  }
  std::filesystem::path run_folder(const std::string& name = "run") { return folder_ / name; }

  std::string content(const std::string& file, const std::string& run = "run") {
    return read_file(run_folder(run) / file);
  }
  std::vector<Json> lines(const std::string& file, const std::string& run = "run") {
    std::vector<Json> objects;
    std::ifstream stream(run_folder(run) / file);
    for (std::string line; std::getline(stream, line);) objects.push_back(Json::parse(line));
    return objects;
  }
  std::vector<Json> metrics(const std::string& run = "run") { return lines("metrics.jsonl", run); }
  // Without what differs from run to run.
  std::vector<Json> lasting_metrics(const std::string& run = "run") {
    std::vector<Json> objects = metrics(run);
    for (Json& line : objects) {
      line.erase("tokens_per_s");
      line.erase("exchange_s");
    }
    return objects;
  }

  // Stops after so many steps of this part.
  RunResult run_some(const TrainConfig& config, bool resume, int steps) {
    RunOptions options{.folder = run_folder(), .resume = resume};
    options.stop = [&] { return --steps == 0; };
    return train(config, options);
  }
};

}  // namespace sigma1
