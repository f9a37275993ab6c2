// `sigma1 inspect`: a model's graph with its factors and cut edges, after any pass.
#include <fmt/ranges.h>

#include <functional>

#include "sigma1/analysis/cut_edges.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/graph/print.h"
#include "sigma1/models/registry.h"
#include "sigma1/passes/unit_scaling.h"
#include "sigma1/train/exchange_costs.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"

namespace sigma1 {
namespace {

struct Options {
  std::string model, scheme = "paper", mean = "geometric", criterion, after, dot;
  int64_t gradient_repeats = 1;
  int64_t ranks = 1;
  std::string reduce = "fp32", shard = "none", gather = "narrow", precision = "fp8";
  std::vector<std::function<void(ModelConfig&)>> changes;  // what was asked for, over the defaults
  bool json = false, time_passes = false;
};

ScalingOptions scaling_from(const Options& options) {
  ScalingOptions scaling = ScalingOptions::of(parse_scheme(options.scheme));
  scaling.mean = parse_mean(options.mean);
  if (!options.criterion.empty()) scaling.context.criterion = parse_criterion(options.criterion);
  if (options.gradient_repeats < 1) {
    throw Error("--gradient-repeats: expected 1 or more, got {}", options.gradient_repeats);
  }
  if (options.ranks < 1) throw Error("--ranks: expected 1 or more, got {}", options.ranks);
  scaling.gradient_repeats = options.gradient_repeats * options.ranks;
  return scaling;
}

CutMarks cut_marks(const Graph& graph) {
  GradientEdges edges(graph);
  std::vector<bool> is_cut = cut_edges(graph, edges);
  CutMarks marks;
  for (int i = 0; i < graph.size(); ++i) {
    marks.emplace_back(graph.node(i).inputs.size());
    for (size_t input = 0; input < marks.back().size(); ++input) {
      int edge = edges.index_of(i, input);
      marks.back()[input] = edge >= 0 && is_cut[static_cast<size_t>(edge)];
    }
  }
  return marks;
}

// "plain" is the graph before any pass.
std::vector<PassTiming> compile(Graph& graph, const Options& options) {
  ScalingOptions scaling = scaling_from(options);
  if (options.after == "plain") return {};
  return run_passes(graph, unit_scaling_passes(scaling), options.after);
}

// What ranks say to each other in a step of training.
std::vector<CollectiveCost> collectives(const ModelConfig& size, const Options& options) {
  TrainConfig config;
  config.model = options.model;
  config.size = size;
  config.world = config.ranks = options.ranks;
  config.reduce = options.reduce;
  config.shard = options.shard;
  config.gather = options.gather;
  config.precision = options.precision;
  config.check_ranks();
  return exchange_costs(config);
}

void print_collectives(const std::vector<CollectiveCost>& costs) {
  if (costs.empty()) return;
  Table table({"between ranks", "format", "tensors", "numbers", "bytes", "most sent by a rank"});
  int64_t bytes = 0, sent = 0;
  for (const CollectiveCost& each : costs) {
    table.add({each.name, each.format, fmt::to_string(each.tensors), fmt::to_string(each.numbers),
               fmt::to_string(each.bytes), fmt::to_string(each.most_sent)});
    bytes += each.bytes;
    sent += each.most_sent;
  }
  table.add({"a step", "", "", "", fmt::to_string(bytes), fmt::to_string(sent)});
  fmt::print("\n");
  table.print();
}

std::string json_of(const Graph& graph, const CutMarks& marks,
                    const std::vector<CollectiveCost>& costs) {
  if (costs.empty()) return to_json(graph, marks);
  auto json = nlohmann::ordered_json::parse(to_json(graph, marks));
  for (const CollectiveCost& each : costs) {
    json["collectives"].push_back({{"name", each.name},
                                   {"op", each.op},
                                   {"format", each.format},
                                   {"tensors", each.tensors},
                                   {"numbers", each.numbers},
                                   {"bytes", each.bytes},
                                   {"most_sent", each.most_sent}});
  }
  return json.dump(2) + "\n";
}

void print_timings(const std::vector<PassTiming>& timings, bool as_json) {
  if (as_json) {
    auto passes = nlohmann::ordered_json::array();
    for (const PassTiming& timing : timings)
      passes.push_back({{"pass", timing.name}, {"milliseconds", timing.milliseconds}});
    return print_json(passes);
  }
  Table table({"pass", "ms"});
  for (const PassTiming& timing : timings) {
    table.add({timing.name, fmt::format("{:.3f}", timing.milliseconds)});
  }
  table.print();
}

void run(const Options& options) {
  Graph graph;
  ModelConfig config = find_model(options.model).defaults();
  for (const auto& change : options.changes) change(config);
  build_model(graph, options.model, config);
  std::vector<PassTiming> timings = compile(graph, options);
  CutMarks marks = cut_marks(graph);
  if (!options.dot.empty()) write_file(options.dot, to_dot(graph, marks));
  if (options.time_passes) return print_timings(timings, options.json);
  std::vector<CollectiveCost> costs = collectives(config, options);
  fmt::print("{}", options.json ? json_of(graph, marks, costs) : to_text(graph, marks));
  if (!options.json) print_collectives(costs);
}

using Changes = std::vector<std::function<void(ModelConfig&)>>;

template <class Field>
void add_model_option(CLI::App& command, Changes& changes, const char* name,
                      Field ModelConfig::*field, const char* help) {
  auto remember = [&changes, field](const Field& value) {
    changes.push_back([field, value](ModelConfig& config) { config.*field = value; });
  };
  command.add_option_function<Field>(name, remember, help);
}

void add_model_options(CLI::App& command, Changes& changes) {
  add_model_option(command, changes, "--batch", &ModelConfig::batch, "Sequences");
  add_model_option(command, changes, "--time", &ModelConfig::time, "Positions of a sequence");
  add_model_option(command, changes, "--width", &ModelConfig::width, "Width of the model");
  add_model_option(command, changes, "--hidden", &ModelConfig::hidden, "Width inside a layer");
  add_model_option(command, changes, "--depth", &ModelConfig::depth, "Layers");
  add_model_option(command, changes, "--heads", &ModelConfig::heads, "Attention heads");
  add_model_option(command, changes, "--vocabulary", &ModelConfig::vocabulary, "Tokens");
  add_model_option(command, changes, "--residual", &ModelConfig::residual,
                   "default, fixed or running-mean");
  add_model_option(command, changes, "--tau", &ModelConfig::tau, "Weight of a fixed branch");
  add_model_option(command, changes, "--context", &ModelConfig::context,
                   "Of char_lm: attention, conv or rnn");
  add_model_option(command, changes, "--norm", &ModelConfig::norm, "Of char_lm: pre, post or none");
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto* command = app.add_subcommand("inspect", "Show a model's graph, factors and cut edges");
  std::vector<std::string> models;
  for (const Model& model : model_registry()) {
    models.push_back(fmt::format("  {:12} {}", model.name, model.description));
  }
  command->footer(
      fmt::format("A line reads name = op(inputs) shape, alpha, betas; | marks an input that is a "
                  "cut edge, whose\n"
                  "beta is free. Sizes default to the model's own. Models:\n{}\n\n"
                  "Examples:\n"
                  "  sigma1 inspect ffn --width 128 --hidden 512\n"
                  "  sigma1 inspect ffn --after ideal_scales --json\n"
                  "  sigma1 inspect gpt --ranks 4 --shard optimiser --reduce bf16\n"
                  "  sigma1 inspect transformer --scheme exact --dot transformer.dot",
                  fmt::join(models, "\n")));
  auto options = std::make_shared<Options>();
  command->add_option("MODEL", options->model, "Model to build")->required();
  command->add_option("--scheme", options->scheme, "paper or exact")->capture_default_str();
  command->add_option("--mean", options->mean, "geometric, arithmetic, harmonic or to-output")
      ->capture_default_str();
  command->add_option("--criterion", options->criterion, "std or rms (default: the scheme's)");
  command
      ->add_option("--gradient-repeats", options->gradient_repeats,
                   "Batches of one rank whose gradients make one step")
      ->capture_default_str();
  command
      ->add_option("--ranks", options->ranks,
                   "Processes that train together; what they send each other is listed")
      ->capture_default_str();
  command->add_option("--reduce", options->reduce, "What gradients travel in: fp32, bf16 or fp16")
      ->capture_default_str();
  command->add_option("--shard", options->shard, "What ranks keep a share of: none or optimiser")
      ->capture_default_str();
  command
      ->add_option("--gather", options->gather,
                   "How weights come from their owners: narrow, as products read them, or stored")
      ->capture_default_str();
  command->add_option("--precision", options->precision, "Of the weights that ranks send")
      ->capture_default_str();
  command->add_option("--after", options->after, "Stop after this pass; plain: before all");
  add_model_options(*command, options->changes);
  command->add_option("--dot", options->dot, "Also write the graph for Graphviz into this file");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--time-passes", options->time_passes, "Print the time of each pass instead");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
