// `sigma1 align`: what a unit-scaled model takes over of the plain one, with the numbers that it
// follows from; and whether both then compute the same.
#include <cmath>
#include <map>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/base/table.h"
#include "sigma1/train/align.h"
#include "sigma1/train/align_function.h"
#include "sigma1/train/session.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"
#include "tools/sigma1/scale_source.h"

namespace sigma1 {
namespace {

struct Options {
  std::string model;
  SettingOptions settings;
  bool json = false;
  int threads = 0;
};

FunctionAlignment align(const TrainConfig& config, const Corpus& corpus) {
  if (config.resolved_align() == "none" || config.is_u_mup()) return {};
  if (config.resolved_align() == "function")
    return align_function(config, step_batch(measured_config(config), corpus, 0));
  std::vector<JoinScales> joins = measure_joins(config, step_batch(config, corpus, 0));
  FunctionAlignment found{{aligned_weights(joins), {}}, {}};
  for (const JoinScales& join : joins) {
    const std::vector<double>& weights = found.alignment.weights.at(join.join);
    found.settings.push_back({join.join, "weights", {join.skip, join.branch}, {}, weights});
  }
  return found;
}

double correlation(const std::vector<float>& a, const std::vector<float>& b) {
  double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    mean_a += a[i] / static_cast<double>(a.size());
    mean_b += b[i] / static_cast<double>(a.size());
  }
  for (size_t i = 0; i < a.size(); ++i) {
    double x = a[i] - mean_a, y = b[i] - mean_b;
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

// Of each output, between the plain model and this one.
std::map<std::string, double> correlations(const TrainConfig& full, const Alignment& alignment,
                                           const Corpus& corpus) {
  TrainConfig config = measured_config(full), plain = config;
  plain.method = "none";
  ModelBatch batch = step_batch(config, corpus, 0);
  auto before = initial_scores(plain, {}, batch);
  auto after = initial_scores(config, alignment, batch);
  std::map<std::string, double> found;
  for (const auto& [name, scores] : before) found[name] = correlation(scores, after.at(name));
  return found;
}

std::string numbers(const std::vector<double>& values) {
  std::string text;
  for (double value : values) text += fmt::format("{}{:.4g}", text.empty() ? "" : " ", value);
  return text.empty() ? "-" : text;
}

void print(const FunctionAlignment& found, const std::map<std::string, double>& alike) {
  Table table({"node", "setting", "plain", "unit-scaled", "set to"});
  for (const AlignedSetting& each : found.settings)
    table.add(
        {each.node, each.setting, numbers(each.plain), numbers(each.unit), numbers(each.set)});
  table.print();
  fmt::print("\n");
  for (const auto& [name, value] : alike)
    fmt::print("{}: correlation {:.6f} with the plain model's\n", name, value);
}

void print_as_json(const FunctionAlignment& found, const std::map<std::string, double>& alike) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const AlignedSetting& each : found.settings)
    settings.push_back({{"node", each.node},
                        {"setting", each.setting},
                        {"plain", each.plain},
                        {"unit", each.unit},
                        {"set", each.set}});
  print_json({{"settings", settings}, {"correlation", alike}});
}

void run(const Options& options) {
  set_thread_count(options.threads);
  ScaleSource source(options.model, options.settings, cpu_device());
  if (source.is_checkpoint())
    throw Error("align: expected a model by name, got {}: a run keeps what it was given",
                options.model);
  TrainConfig config = source.config("unit");
  if (!config.reads_text())
    throw Error("align: expected a model that reads text, char_lm, gpt or bert, got {}",
                config.model);
  FunctionAlignment found = align(config, source.corpus());
  std::map<std::string, double> alike = correlations(config, found.alignment, source.corpus());
  source.tell_text();
  options.json ? print_as_json(found, alike) : print(found, alike);
}

}  // namespace

void add_align(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "align", "What a unit-scaled model takes over of the plain one, measured and set");
  command->add_option("MODEL", options->model, "A model by name")->required();
  add_settings(*command, options->settings, {"scheme", "align", "seed"});
  add_text_option(*command, options->settings);
  command->add_option("--threads", options->threads, "Threads; 0: all cores");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "plain and unit-scaled: standard deviations of what goes into the node, in both models, "
      "from\n"
      "one pass of the plain one at initialisation. Settings: weights of a sum; multiplier of "
      "what\n"
      "an activation or attention's softmax reads; gain, over what the op's rule makes of its\n"
      "output (for attention: the share of its values that averaging leaves, and the rule's); "
      "and\n"
      "shares of keys, queries and rows that count, where padding or a head leaves some out.\n\n"
      "Examples:\n"
      "  sigma1 align bert --text pairs128.bert\n"
      "  sigma1 align char_lm --text corpus.txt --align function\n"
      "  sigma1 align gpt --set size=124M --text corpus.txt --json");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
