// `sigma1 plan`: what a step would take on many GPUs, from one GPU's and the links between them.
#include <cmath>

#include "sigma1/backend/devices.h"
#include "sigma1/base/error.h"
#include "sigma1/base/text.h"
#include "sigma1/report/cluster_plan.h"
#include "sigma1/report/step_scaling_cost.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"
#include "tools/sigma1/settings.h"

namespace sigma1 {
namespace {

struct Options {
  SettingOptions settings;
  PlanInput plan;
  std::vector<int64_t> gpus{1, 8, 64, 512};
  double step_time = 0, rate = 0;
  std::string device = "auto";
  int64_t vocabulary = 256;
  bool json = false;
};

// CLI11's own check lets NaN pass, and prints the largest double.
CLI::Validator positive() {
  auto fault = [](const std::string& text) {
    std::optional<double> number = parse_number(text);
    bool fits = number && *number > 0 && std::isfinite(*number);
    return fits ? "" : fmt::format("expected a positive number, got '{}'", text);
  };
  return CLI::Validator(fault, "POSITIVE");
}

double step_seconds(const Options& options, double flops) {
  if ((options.step_time > 0) == (options.rate > 0)) {
    throw Error("plan: expected either --step-time, as measured, or --flops, to compute it from");
  }
  return options.step_time > 0 ? options.step_time : flops / options.rate;
}

nlohmann::ordered_json json_of(const PlanRow& row) {
  return {{"gpus", row.gpus},
          {"batches", row.batches},
          {"tokens", row.tokens},
          {"memory", row.memory},
          {"fits", row.fits},
          {"near_bytes", row.near_bytes},
          {"far_bytes", row.far_bytes},
          {"exchange_seconds", row.exchange_seconds},
          {"exposed_seconds", row.exposed_seconds},
          {"step_seconds", row.step_seconds},
          {"efficiency", row.efficiency}};
}

void print(const std::vector<PlanRow>& rows) {
  Table table({"GPUs", "10^6 tokens", "batches", "GB", "fits", "MB in node", "MB out of it",
               "exchange ms", "waited for", "step ms", "efficiency", "10^6 tokens/s"});
  auto number = [](double value) {
    return value < 1000 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
  };
  for (const PlanRow& row : rows) {
    table.add({fmt::to_string(row.gpus), number(row.tokens / 1e6), fmt::to_string(row.batches),
               number(row.memory / 1e9), row.fits ? "yes" : "no", number(row.near_bytes / 1e6),
               number(row.far_bytes / 1e6), number(1e3 * row.exchange_seconds),
               number(1e3 * row.exposed_seconds), number(1e3 * row.step_seconds),
               fmt::format("{:.1f} %", 100 * row.efficiency),
               number(row.tokens / row.step_seconds / 1e6)});
  }
  table.print();
}

void run(const Options& options) {
  PlanInput plan = options.plan;
  plan.config = read_settings(options.settings);
  plan.config.size.vocabulary = options.vocabulary;
  plan.config.check();
  auto flops = static_cast<double>(step_scaling_cost(plan.config).product_flops);
  plan.seconds = step_seconds(options, flops);
  MemoryTable alone = memory_table(plan.config, find_device(options.device));
  std::vector<PlanRow> rows;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (int64_t gpus : options.gpus) {
    rows.push_back(plan_ranks(plan, alone, gpus));
    json.push_back(json_of(rows.back()));
  }
  if (options.json) {
    return print_json({{"product_flops", flops}, {"batch_seconds", plan.seconds}, {"plans", json}});
  }
  fmt::print("a batch: {:.4g} TFLOP of products in {:.4g} ms, {:.4g} TFLOP/s\n\n", flops / 1e12,
             1e3 * plan.seconds, flops / plan.seconds / 1e12);
  print(rows);
}

void add_cluster(CLI::App& command, Cluster& cluster) {
  auto add = [&](const char* name, auto& value, const char* help) {
    command.add_option(name, value, help)->check(positive())->capture_default_str();
  };
  add("--node", cluster.node, "GPUs of a node");
  add("--near", cluster.near, "Bytes a second that a GPU sends within its node");
  add("--far", cluster.far, "Bytes a second that a GPU sends to other nodes");
  add("--memory", cluster.memory, "Bytes of a GPU");
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plan", "What a step would take on many GPUs");
  add_settings(*command, options->settings);
  command->add_option("--gpus", options->gpus, "How many, as 8,64,512")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option("--step-time", options->step_time, "Seconds of one GPU for a batch, as measured")
      ->check(positive());
  command
      ->add_option("--flops", options->rate,
                   "Instead: FLOP/s of products that a whole step reaches")
      ->check(positive());
  command
      ->add_option("--sequences", options->plan.sequences,
                   "Of a step over all GPUs; without, batch x accumulate of each")
      ->check(positive());
  add_cluster(*command, options->plan.cluster);
  command->add_flag("--overlap", options->plan.overlaps, "As if exchanges ran beside backward");
  command->add_flag("--by-nodes", options->plan.by_nodes,
                    "As if sums were made within a node first, of tensors cut evenly");
  command->add_option("--vocabulary", options->vocabulary, "Characters, or tokens")
      ->check(CLI::Range(int64_t{2}, int64_t{65535}))
      ->capture_default_str();
  command->add_option("--device", options->device, kDeviceHelp)->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Computed, not measured: bytes as `sigma1 inspect --ranks` has them, memory as `sigma1 "
      "memory`\n"
      "does (on a machine with a GPU, as that would plan it), time from one GPU's.\n\n"
      "Example:\n"
      "  sigma1 plan --set model=gpt --set size=124M --set batch=32 --set shard=optimiser\n"
      "      --set reduce=fp16 --vocabulary 50304 --step-time 0.0517 --gpus 8,64,512");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
