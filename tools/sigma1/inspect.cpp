// `sigma1 inspect`: a model's graph with its factors and cut edges, after any pass.
#include <fmt/ranges.h>

#include "sigma1/analysis/cut_edges.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/graph/print.h"
#include "sigma1/models/registry.h"
#include "sigma1/passes/unit_scaling.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"

namespace sigma1 {
namespace {

struct Options {
  std::string model, scheme = "paper", mean = "geometric", criterion, after, dot;
  int64_t gradient_repeats = 1;
  ModelConfig config;
  bool json = false, time_passes = false;
};

ScalingOptions scaling_from(const Options& options) {
  ScalingOptions scaling = ScalingOptions::of(parse_scheme(options.scheme));
  scaling.mean = parse_mean(options.mean);
  if (!options.criterion.empty()) scaling.context.criterion = parse_criterion(options.criterion);
  if (options.gradient_repeats < 1) {
    throw Error("--gradient-repeats: expected 1 or more, got {}", options.gradient_repeats);
  }
  scaling.gradient_repeats = options.gradient_repeats;
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

void print_timings(const std::vector<PassTiming>& timings) {
  Table table({"pass", "ms"});
  for (const PassTiming& timing : timings) {
    table.add({timing.name, fmt::format("{:.3f}", timing.milliseconds)});
  }
  table.print();
}

void run(const Options& options) {
  Graph graph;
  build_model(graph, options.model, options.config);
  std::vector<PassTiming> timings = compile(graph, options);
  CutMarks marks = cut_marks(graph);
  if (!options.dot.empty()) write_file(options.dot, to_dot(graph, marks));
  if (options.time_passes) return print_timings(timings);
  fmt::print("{}", options.json ? to_json(graph, marks) : to_text(graph, marks));
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
                  "beta is free. Models:\n{}\n\n"
                  "Examples:\n"
                  "  sigma1 inspect ffn --width 128 --hidden 512\n"
                  "  sigma1 inspect ffn --after ideal_scales --json\n"
                  "  sigma1 inspect transformer --scheme exact --dot transformer.dot",
                  fmt::join(models, "\n")));
  auto options = std::make_shared<Options>();
  ModelConfig& config = options->config;
  command->add_option("MODEL", options->model, "Model to build")->required();
  command->add_option("--scheme", options->scheme, "paper or exact")->capture_default_str();
  command->add_option("--mean", options->mean, "geometric, arithmetic, harmonic or to-output")
      ->capture_default_str();
  command->add_option("--criterion", options->criterion, "std or rms (default: the scheme's)");
  command
      ->add_option("--gradient-repeats", options->gradient_repeats,
                   "Accumulation steps x data-parallel ranks")
      ->capture_default_str();
  command->add_option("--after", options->after, "Stop after this pass; plain: before all");
  command->add_option("--batch", config.batch, "Sequences")->capture_default_str();
  command->add_option("--time", config.time, "Positions of a sequence")->capture_default_str();
  command->add_option("--width", config.width, "Width of the model")->capture_default_str();
  command->add_option("--hidden", config.hidden, "Width inside a layer")->capture_default_str();
  command->add_option("--depth", config.depth, "Layers")->capture_default_str();
  command->add_option("--heads", config.heads, "Attention heads")->capture_default_str();
  command->add_option("--vocabulary", config.vocabulary, "Tokens")->capture_default_str();
  command->add_option("--residual", config.residual, "default, fixed or running-mean")
      ->capture_default_str();
  command->add_option("--tau", config.tau, "Weight of a fixed residual branch")
      ->capture_default_str();
  command->add_option("--dot", options->dot, "Also write the graph for Graphviz into this file");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--time-passes", options->time_passes, "Print the time of each pass instead");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
