// `sigma1 squad`: answers to SQuAD's questions; here, their scores.
#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/data/squad_metrics.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"
#include "tools/sigma1/squad.h"

namespace sigma1 {
namespace {

struct Options {
  std::string data, predictions, no_answer;
  double threshold = 1;
  bool json = false;
};

SquadMetrics metrics_of(const Options& options, const SquadData& data) {
  ByQuestion<std::string> predictions = load_squad_predictions(options.predictions);
  if (data.version == SquadVersion::v1_1) return squad_metrics_v1(data, predictions);
  if (options.no_answer.empty()) return squad_metrics_v2(data, predictions);
  NoAnswerProbabilities no_answer{load_squad_numbers(options.no_answer), options.threshold};
  return squad_metrics_v2(data, predictions, &no_answer);
}

void warn_of_missing(const SquadMetrics& metrics, const Options& options, SquadVersion version) {
  constexpr size_t kNamed = 3;
  size_t count = metrics.missing.size();
  if (count == 0) return;
  std::vector<std::string> named(
      metrics.missing.begin(),
      metrics.missing.begin() + static_cast<ptrdiff_t>(std::min(count, kNamed)));
  fmt::print(stderr, "sigma1: {} has no prediction for {} question{} ({}{}), which {}\n",
             options.predictions, count, count == 1 ? "" : "s", fmt::join(named, ", "),
             count > kNamed ? ", …" : "",
             version == SquadVersion::v1_1 ? "count as wrong" : "are left out");
}

void run(const Options& options) {
  SquadData data = load_squad(options.data);
  if (data.version == SquadVersion::v1_1 && !options.no_answer.empty())
    throw Error("--na-prob: expected data of version 2.0, got {} of version 1.1", options.data);
  SquadMetrics metrics = metrics_of(options, data);
  warn_of_missing(metrics, options, data.version);
  if (options.json) return fmt::print("{}\n", metrics.json());
  Table table({"metric", "value"});
  for (const auto& [name, number] : metrics.values)
    table.add({name, number.whole ? fmt::format("{}", number.value)
                                  : fmt::format("{:.4f}", number.value)});
  table.print();
}

}  // namespace

void add_squad(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("squad", "Train and score answers to SQuAD's questions");
  command->require_subcommand(1);
  command->footer("Example:\n  sigma1 squad evaluate dev-v1.1.json predictions.json");
  add_squad_train(*command);
  add_squad_predict(*command);
  CLI::App* evaluate = command->add_subcommand("evaluate", "Scores by the official definitions");
  evaluate->add_option("DATA", options->data, "SQuAD v1.1 or v2.0, JSON or .json.zst")->required();
  evaluate->add_option("PREDICTIONS", options->predictions, "{\"question's id\": \"answer\", …}")
      ->required();
  evaluate->add_option("--na-prob", options->no_answer,
                       "{id: probability that the question has no answer, …}; v2.0");
  evaluate
      ->add_option("--na-prob-thresh", options->threshold,
                   "Above this probability the prediction counts as none")
      ->capture_default_str();
  evaluate->add_flag("--json", options->json, "Print JSON, with all digits");
  evaluate->footer(
      "The data's version says which numbers, all in percent but totals and thresholds:\n"
      "  1.1   exact_match, f1 as evaluate-v1.1.py has them; a missing prediction counts as wrong\n"
      "  v2.0  as evaluate-v2.0.py: exact, f1, total; HasAns_exact, …_f1, …_total of questions "
      "that\n"
      "        have an answer, NoAns_… of the others; with --na-prob best_exact, "
      "best_exact_thresh,\n"
      "        best_f1, best_f1_thresh. Questions without a prediction are left out, with a "
      "warning.\n\n"
      "Examples:\n  sigma1 squad evaluate dev-v1.1.json predictions.json\n"
      "  sigma1 squad evaluate dev-v2.0.json.zst predictions.json --na-prob null_odds.json --json");
  evaluate->callback([options] { run(*options); });
}

}  // namespace sigma1
