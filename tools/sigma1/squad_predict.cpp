// `sigma1 squad predict`: a trained model's answers, as the official scripts read them.
#include "sigma1/backend/devices.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/parallel.h"
#include "sigma1/train/progress.h"
#include "sigma1/train/session.h"
#include "sigma1/train/squad_source.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/model_source.h"
#include "tools/sigma1/squad.h"

namespace sigma1 {
namespace {

struct Options {
  std::string data, source, vocabulary, out, best_out, odds_out, device = "auto";
  SquadPredictionOptions prediction;
  int threads = 0;
};

// Reads nothing but the questions, and keeps the answers.
class Asker : public BatchSource {
 public:
  Asker(const SquadFeatures& features, const SquadPredictionOptions& options)
      : features_(features), options_(options) {}

  ModelBatch training(const TrainConfig&, int64_t) const override {
    throw Bug("answers are not trained on");
  }
  Evaluation evaluate(const TrainConfig& config, const Run& run,
                      const Progress& progress) const override {
    answers_ = answer_squad(features_, config, run, progress, options_);
    return {.loss = answers_.loss};
  }
  const std::vector<SquadPrediction>& predictions() const { return answers_.predictions; }

 private:
  const SquadFeatures& features_;
  const SquadPredictionOptions& options_;
  mutable SquadAnswers answers_;
};

void run(const Options& options) {
  set_thread_count(options.threads);
  for (const std::string* path : {&options.out, &options.best_out, &options.odds_out}) {
    if (!path->empty()) expect_writable(*path);
  }
  Session session(open_model(options.source), nullptr, find_device(options.device));
  TrainConfig config = session.config();
  if (config.model != "bert_squad")
    throw Error("{}: expected a model that answers questions, bert_squad, got '{}'", options.source,
                config.model);
  if (!options.vocabulary.empty()) config.vocab_file = options.vocabulary;
  WordPiece pieces = squad_pieces(config);
  if (pieces.size() != session.vocabulary().known())
    throw Error("--vocab: expected the {} tokens of the model, got {} in {}",
                session.vocabulary().known(), pieces.size(), config.vocab_file);
  SquadData data = load_squad_texts(options.data);
  if (data.version == SquadVersion::v1_1 && !options.odds_out.empty())
    throw Error("--null-odds-out: expected data of version 2.0, got {} of version 1.1",
                options.data);
  SquadFeatures features = make_squad_features(data, pieces, squad_options(config));
  Asker asker(features, options.prediction);
  ProgressLine progress(stderr);
  session.evaluate(asker,
                   [&](int64_t done, int64_t total) { progress.update("windows", done, total); });
  progress.finish();
  write_file(options.out, predictions_json(asker.predictions()));
  if (!options.best_out.empty()) write_file(options.best_out, best_spans_json(asker.predictions()));
  if (!options.odds_out.empty()) write_file(options.odds_out, null_odds_json(asker.predictions()));
  fmt::print("{} answers from {} windows in {}\n", asker.predictions().size(),
             features.windows.size(), options.out);
}

}  // namespace

void add_squad_predict(CLI::App& squad) {
  auto options = std::make_shared<Options>();
  CLI::App* command = squad.add_subcommand("predict", "Answer questions with a trained model");
  command->add_option("DATA", options->data, "SQuAD v1.1 or v2.0, JSON or .json.zst")->required();
  command->add_option("--checkpoint", options->source, "A run's folder or a checkpoint")
      ->required();
  command->add_option("--vocab", options->vocabulary, "vocab.txt; without one, the run's");
  command->add_option("--out", options->out, "File for {\"question's id\": \"answer\", …}")
      ->required();
  command->add_option("--best-out", options->best_out, "File for the best answers of each");
  command->add_option("--null-odds-out", options->odds_out,
                      "File for how much better no answer is, for evaluate --na-prob; v2.0");
  command->add_option("--n-best", options->prediction.best, "Answers kept of each question")
      ->capture_default_str();
  command->add_option("--max-answer", options->prediction.max_answer, "Tokens of an answer")
      ->capture_default_str();
  command
      ->add_option("--null-threshold", options->prediction.null_threshold,
                   "v2.0: no answer where its score is more than this above the best")
      ->capture_default_str();
  command->add_option("--device", options->device, kDeviceHelp)->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: all cores");
  command->footer(
      "Example:\n"
      "  sigma1 squad predict dev-v1.1.json --checkpoint runs/squad --out predictions.json\n"
      "  sigma1 squad evaluate dev-v1.1.json predictions.json");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
