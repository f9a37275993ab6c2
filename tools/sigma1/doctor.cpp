// `sigma1 doctor`: in words, where a model would lose its bits, what unit scaling makes of it, and
// what the scaling and an exchange between ranks cost.
#include <filesystem>

#include "sigma1/backend/devices.h"
#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/report/diagnosis.h"
#include "sigma1/report/step_scaling_cost.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/scale_source.h"

namespace sigma1 {
namespace {

struct Options {
  std::string source, device = "auto";
  SettingOptions settings;
  double limit = 1;  // percent
  bool json = false;
  int threads = 0;
};

void run(const Options& options) {
  if (!(options.limit >= 0 && options.limit < 100)) {
    throw Error("--limit: expected a percentage from 0 to below 100, got {}", options.limit);
  }
  set_thread_count(options.threads);
  ScaleSource source(options.source, options.settings, find_device(options.device));
  DiagnosisInput input;
  input.precision = source.config("unit").precision;
  input.limit = options.limit / 100;
  for (const std::string& method : source.methods()) {
    input.methods.push_back({method, source.measure(method, {}).start});
  }
  source.tell_text();
  input.cost = step_scaling_cost(source.config("unit"));
  TrainConfig config = source.config("unit");
  input.traffic = std::filesystem::is_directory(options.source)
                      ? rank_traffic(config, options.source)
                      : rank_traffic(config);
  Diagnosis diagnosis = diagnose(input);
  fmt::print("{}", options.json ? diagnosis.to_json() : diagnosis.to_text());
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Say where a model would lose its bits, and what unit scaling changes and costs");
  command->add_option("MODEL", options->source, "A model by name, a checkpoint or a run's folder")
      ->required();
  add_settings(*command, options->settings, {"method", "scheme", "align", "precision", "seed"});
  add_text_option(*command, options->settings);
  command->add_option("--limit", options->limit, "Percent of a tensor's numbers that may be lost")
      ->capture_default_str();
  command->add_option("--device", options->device, kDeviceHelp)->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: all cores");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Every tensor of one forward and backward pass at initialisation is measured under regular\n"
      "training, a loss scale of 2048 and unit scaling, or under --method alone, and judged by "
      "the\n"
      "formats of --precision (default fp8).\n\n"
      "Examples:\n"
      "  sigma1 doctor char_lm --precision fp8\n"
      "  sigma1 doctor gpt --precision fp16 --text corpus.txt --limit 0.1\n"
      "  sigma1 doctor char_lm --set context=rnn --set depth=2 --json\n"
      "  sigma1 doctor gpt --set ranks=8 --set reduce=fp16\n"
      "  sigma1 doctor runs/four");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
