// `sigma1 import`: a BERT that others have trained, to go on with.
#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/exchange/transformers_bert.h"
#include "sigma1/train/checkpoints.h"
#include "sigma1/train/run_folder.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/settings.h"

namespace sigma1 {
namespace {

struct Options {
  std::string source, out, model = "bert";
  SettingOptions settings;
};

void run(Options options) {
  // A run that a checkpoint of no steps is put into would be taken to have gone back to it.
  if (has_checkpoint(options.out) || has_checkpoint(checkpoint_folder(options.out)))
    throw Error("--out {}: expected a folder without checkpoints, got one that has some",
                options.out);
  options.settings.changes.insert(options.settings.changes.begin(), "model=" + options.model);
  ReadBert read = read_transformers_bert(options.source, read_settings(options.settings));
  write_model(options.out, read.model);
  if (!read.fresh.empty()) {
    fmt::print(stderr, "sigma1: {} lacks {}, which start anew\n", options.source,
               fmt::join(read.fresh, ", "));
  }
  fmt::print("{} is a checkpoint in {}\n", options.source, options.out);
}

}  // namespace

void add_import(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("import", "Read a BERT of Hugging Face's transformers into a checkpoint");
  command
      ->add_option("source", options->source,
                   "A folder of config.json and model.safetensors, or that file")
      ->required();
  command->add_option("--out", options->out, "Folder for the checkpoint")->required();
  command->add_option("--model", options->model, "bert or bert_squad")->capture_default_str();
  add_settings(*command, options->settings);
  command->footer(
      "Sizes are the file's; all else is a setting, as for train. Under --method unit parameters\n"
      "are scaled so that the model computes the same.\n\n"
      "Examples:\n"
      "  sigma1 import bert-base-uncased --method unit --precision fp8 --out imported\n"
      "  sigma1 import bert-base-uncased --model bert_squad --method none --precision fp32 --out "
      "imported");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
