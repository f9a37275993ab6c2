// `sigma1 memory`: what a run would take, before it is begun.
#include "sigma1/backend/devices.h"
#include "sigma1/train/memory_table.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"
#include "tools/sigma1/settings.h"

namespace sigma1 {
namespace {

struct Options {
  SettingOptions settings;
  std::string device = "auto";
  int64_t vocabulary = 256;
  bool json = false;
};

void run(const Options& options) {
  TrainConfig config = read_settings(options.settings);
  config.size.vocabulary = options.vocabulary;
  config.check();
  MemoryTable memory = memory_table(config, find_device(options.device));
  auto total = static_cast<double>(memory.total());
  if (options.json) {
    nlohmann::ordered_json shares = nlohmann::ordered_json::array();
    for (const MemoryShare& share : memory.shares) {
      shares.push_back({{"kind", share.kind},
                        {"op", share.op},
                        {"tensors", share.tensors},
                        {"bytes", share.bytes}});
    }
    return print_json({{"total", memory.total()}, {"arena", memory.arena}, {"shares", shares}});
  }
  Table table({"what", "of", "tensors", "MB", "share"});
  for (const MemoryShare& share : memory.shares) {
    auto bytes = static_cast<double>(share.bytes);
    table.add({share.kind, share.op, std::to_string(share.tensors),
               fmt::format("{:.1f}", bytes / 1e6), fmt::format("{:.1f} %", 100 * bytes / total)});
  }
  table.print();
  fmt::print("\n{:.1f} MB, of which {:.1f} MB is the arena that activations and backward share\n",
             total / 1e6, static_cast<double>(memory.arena) / 1e6);
}

}  // namespace

void add_memory(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("memory", "What the memory of a training run goes to");
  add_settings(*command, options->settings);
  command->add_option("--vocabulary", options->vocabulary, "Characters, or tokens")
      ->check(CLI::Range(int64_t{2}, int64_t{65535}))
      ->capture_default_str();
  command->add_option("--device", options->device, kDeviceHelp)->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON: bytes of each kind and op");
  command->footer(
      "Parameters, copies of them as products read them, gradients and the optimiser's states "
      "stay\n"
      "from step to step; activations (what forward leaves for backward) and backward's own "
      "tensors\n"
      "are those of the moment when most is held. Kernels need some room to work in on top.\n\n"
      "Examples:\n  sigma1 memory --precision fp8 --method unit\n"
      "  sigma1 memory --set model=gpt --set size=124M --set batch=32 --vocabulary 50304\n"
      "      --method unit --precision fp8 --recompute blocks");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
