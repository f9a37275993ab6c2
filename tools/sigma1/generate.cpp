// `sigma1 generate`: text sampled from a model, so that a person can read what it learned.
#include "sigma1/train/generate.h"
#include "sigma1/backend/devices.h"
#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/model_source.h"

namespace sigma1 {
namespace {

struct Options {
  std::string source, prompt, device = "auto";
  int64_t length = 200, seed = 0;
  double temperature = 1;
  int threads = 0;
};

void run(const Options& options) {
  set_thread_count(options.threads);
  Checkpoint checkpoint = open_model(options.source);
  Session session(checkpoint, nullptr, find_device(options.device));
  generate(session,
           {.prompt = options.prompt,
            .length = options.length,
            .temperature = options.temperature,
            .seed = static_cast<uint64_t>(options.seed)},
           [](std::string_view text) {
             fmt::print("{}", text);
             std::fflush(stdout);
           });
  fmt::print("\n");
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("generate", "Sample text from a trained model");
  command->add_option("model", options->source, "A run's folder or a checkpoint")->required();
  command->add_option("--prompt", options->prompt,
                      "What the text begins with; token ids as numbers");
  command->add_option("--length", options->length, "Tokens to add")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}));
  command->add_option("--temperature", options->temperature, "0: always the likeliest token");
  command->add_option("--seed", options->seed, "Of the sampling");
  command->add_option("--device", options->device, kDeviceHelp)->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: all cores");
  command->footer(
      "Examples:\n  sigma1 generate runs/a --prompt \"The \"\n"
      "  sigma1 generate runs/a --prompt \"In 1905\" --temperature 0.7 --length 400");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
