// `sigma1 eval`: how well a checkpoint predicts a text.
#include "sigma1/backend/devices.h"
#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/train/bert_source.h"
#include "sigma1/train/progress.h"
#include "sigma1/train/session.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/model_source.h"
#include "tools/sigma1/output.h"

namespace sigma1 {
namespace {

struct Options {
  std::string source, text, device = "auto";
  bool json = false;
  int threads = 0;
};

// What was asked for, or what the run was validated on.
std::vector<uint16_t> text_of(const Options& options, const Session& session) {
  if (!options.text.empty()) return load_tokens(options.text, session.vocabulary());
  const TrainConfig& config = session.config();
  if (!config.valid_text.empty()) return load_tokens(config.valid_text, session.vocabulary());
  return load_corpus(config.train_text, "", "", config.tokens).valid;
}

Evaluation judge(const Options& options, Session& session, const BatchSource::Progress& progress) {
  if (!session.config().reads_pairs() && !session.config().reads_questions())
    return session.evaluate(text_of(options, session), progress);
  TrainConfig config = session.config();
  // What the model was trained on, if on anything here, may be gone.
  if (!options.text.empty()) config.train_text = config.valid_text = options.text;
  Corpus corpus = load_corpus(config, "");
  if (!(corpus.vocabulary == session.vocabulary()))
    throw Error("{}: expected the {} tokens of the model, got {}", config.valid_text,
                session.vocabulary().known(), corpus.vocabulary.known());
  return session.evaluate(*corpus.source, progress);
}

void run(const Options& options) {
  set_thread_count(options.threads);
  Checkpoint checkpoint = open_model(options.source);
  Session session(checkpoint, nullptr, find_device(options.device));
  ProgressLine progress(stderr);
  Evaluation result = judge(options, session, [&](int64_t done, int64_t total) {
    progress.update("windows", done, total);
  });
  progress.finish();
  if (options.json) {
    nlohmann::ordered_json json{{"checkpoint", checkpoint.file.path().string()},
                                {"step", checkpoint.step},
                                {"text", options.text},
                                {"characters", result.characters},
                                {"loss", json_number(result.loss)},
                                {"bpc", json_number(result.bits_per_character)}};
    for (const auto& [name, value] : result.parts) json[name] = json_number(value);
    return print_json(json);
  }
  fmt::print("{} (step {})\n", to_string(result), checkpoint.step);
}

}  // namespace

void add_evaluate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("eval", "Bits per character, byte or token of a model on a text");
  command->add_option("model", options->source, "A run's folder or a checkpoint")->required();
  command->add_option("text", options->text,
                      "A text as the run reads it; without one, the run's validation text");
  command->add_option("--device", options->device, kDeviceHelp)->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: all cores");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n  sigma1 eval runs/a\n  sigma1 eval runs/a test.txt\n"
      "  sigma1 eval runs/a/checkpoints/step-00001000.safetensors test.txt --json");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
