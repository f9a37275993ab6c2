// `sigma1 squad train`: a pretrained BERT learns to answer questions.
#include <cmath>

#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/train/progress.h"
#include "sigma1/train/squad_source.h"
#include "sigma1/train/stored_model.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/model_source.h"
#include "tools/sigma1/run_ranks.h"
#include "tools/sigma1/settings.h"
#include "tools/sigma1/squad.h"
#include "tools/sigma1/training.h"

namespace sigma1 {
namespace {

struct Options {
  SettingOptions settings;
  TrainingOptions training;
  std::string data, init, vocabulary;
  double epochs = 2;
  bool cased = false;
};

// A step of Adam changes a weight by about the rate. Weights under unit scaling are √width times
// as large as plain ones, and so is the rate that does the same to them.
double default_rate(const TrainConfig& config) {
  constexpr double kOfDevlin = 3e-5;
  bool unit = Method::parse(config.method).kind == Method::Kind::unit;
  return unit ? kOfDevlin * std::sqrt(static_cast<double>(config.size.width)) : kOfDevlin;
}

// As the pretrained model is, and trained as Devlin et al. (2019) did, but for what is asked.
TrainConfig config_of(const Options& options) {
  TrainConfig pretrained = read_config(open_model(options.init)), config;
  config.model = "bert_squad";
  config.size = pretrained.size;
  config.size.named.clear();
  config.size.batch = 32;
  config.size.time = std::min<int64_t>(384, config.size.positions);
  for (auto setting : {&TrainConfig::method, &TrainConfig::scheme, &TrainConfig::align,
                       &TrainConfig::precision, &TrainConfig::activations, &TrainConfig::weights,
                       &TrainConfig::gradients, &TrainConfig::moment, &TrainConfig::matmul})
    config.*setting = pretrained.*setting;
  config.master_weights = pretrained.master_weights;
  config.optimiser = "adamw";
  config.weight_decay = 0.01;
  config.schedule = "linear";
  config.rate = default_rate(config);
  config.train_text = options.data;
  config.init = options.init;
  config.vocab_file = options.vocabulary;
  config.cased = options.cased;
  apply_changes(options.settings, config);
  return config;
}

void set_steps(TrainConfig& config, const Options& options, const SquadCounts& counts) {
  constexpr double kMostSteps = 1e9;
  double steps_of_epoch =
      static_cast<double>(counts.windows) / static_cast<double>(config.size.batch * config.parts());
  double steps = std::ceil(options.epochs * steps_of_epoch);
  if (!options.settings.given("steps")) {
    if (steps > kMostSteps)
      throw Error("--epochs: expected at most {:.0f}, which take {:.0f} steps, got {}",
                  kMostSteps / steps_of_epoch, kMostSteps, options.epochs);
    config.steps = std::max<int64_t>(1, std::llround(steps));
  }
  if (!options.settings.given("warmup")) config.warmup = config.steps / 10;
}

void tell(const SquadCounts& counts, int64_t steps) {
  if (is_terminal(stderr)) {
    fmt::print(stderr, "sigma1: {} windows of {} questions, {} steps\n", counts.windows,
               counts.questions, steps);
  }
  if (counts.left_out > 0)
    fmt::print(stderr, "sigma1: left out, as no answer stands where it should: {} question{}\n",
               counts.left_out, counts.left_out == 1 ? "" : "s");
}

void run_rank(const Options& options) {
  TrainConfig config;
  Corpus corpus;
  SquadCounts counts;
  together(ranks(), [&] {
    use_threads(options.training);
    config = config_of(options);
    config.begin_with(ranks().size());
    config.check();
    corpus = load_squad_corpus(config);
    counts = count_squad(corpus);
    set_steps(config, options, counts);
  });
  if (ranks().rank() == 0) tell(counts, config.steps);
  run_training(config, options.training, &corpus);
}

void run(const Options& options) {
  if (!(options.epochs > 0)) throw Error("--epochs: expected more than 0, got {}", options.epochs);
  run_ranks([&] { run_rank(options); });
}

}  // namespace

void add_squad_train(CLI::App& squad) {
  auto options = std::make_shared<Options>();
  CLI::App* command = squad.add_subcommand("train", "Train a pretrained BERT to answer questions");
  command->add_option("DATA", options->data, "SQuAD v1.1 or v2.0, JSON or .json.zst")->required();
  command->add_option("--init", options->init, "Run or checkpoint of model bert")->required();
  command->add_option("--vocab", options->vocabulary, "Its vocab.txt")->required();
  command->add_flag("--cased", options->cased, "The vocabulary has upper case");
  command->add_option("--epochs", options->epochs, "Times through the data; or --set steps=N")
      ->capture_default_str();
  add_settings(*command, options->settings, {"valid", "method", "precision", "rate", "seed"});
  add_training_options(*command, options->training);
  command->footer(
      "Sizes, method and precision are those of the pretrained model. batch 32, time 384, AdamW\n"
      "with a rate of 3e-5 (times √width under unit scaling) and linear decay, unless set.\n\n"
      "Examples:\n"
      "  sigma1 squad train train-v1.1.json --valid dev-v1.1.json --init runs/bert --vocab "
      "vocab.txt --run runs/squad\n"
      "  sigma1 train --run runs/squad --resume");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
