// `sigma1 export`: a trained model as other programs read it.
#include "sigma1/base/error.h"
#include "sigma1/data/text_file.h"
#include "sigma1/exchange/onnx_export.h"
#include "sigma1/exchange/transformers_bert.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/model_source.h"

namespace sigma1 {
namespace {

struct Options {
  std::string source, format = "safetensors", out, vocabulary;
  bool cased = false;
  int64_t batch = 1;
};

void run(const Options& options) {
  Checkpoint checkpoint = open_model(options.source);
  StoredModel model = read_model(checkpoint);
  std::string path = checkpoint.file.path().string();
  if (options.format == "onnx") {
    if (options.batch < 1) throw Error("--batch: expected 1 or more, got {}", options.batch);
    auto graph = forward_graph(model.config, model.alignment, options.batch);
    onnx_model(*graph, model.parameters).write(options.out);
    fmt::print("{} (step {}) is ONNX in {}\n", path, checkpoint.step, options.out);
    return;
  }
  if (options.format != "safetensors")
    throw Error("--format: expected safetensors or onnx, got '{}'", options.format);
  std::string vocabulary = options.vocabulary.empty() ? "" : read_text(options.vocabulary);
  write_transformers_bert(options.out, model, vocabulary, !options.cased);
  fmt::print("{} (step {}) is a model of transformers in {}\n", path, checkpoint.step, options.out);
}

}  // namespace

void add_export(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export", "Write a model as other programs read it");
  command->add_option("model", options->source, "A run's folder or a checkpoint")->required();
  command
      ->add_option("--format", options->format,
                   "safetensors: a folder for Hugging Face's transformers (BERT); onnx: a file")
      ->capture_default_str();
  command->add_option("--out", options->out, "The folder, or the file")->required();
  command->add_option("--vocab", options->vocabulary, "safetensors: a vocab.txt to put beside it");
  command->add_flag("--cased", options->cased, "safetensors: the vocabulary has upper case");
  command->add_option("--batch", options->batch, "onnx: sequences of a batch")
      ->capture_default_str();
  command->footer(
      "Scales of a unit-scaled model are folded into its weights (safetensors), or are products\n"
      "of their own (onnx): both compute what the model does.\n\n"
      "Examples:\n"
      "  sigma1 export runs/bert --vocab vocab.txt --out bert_for_transformers\n"
      "  sigma1 export runs/gpt --format onnx --out gpt.onnx --batch 4");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
