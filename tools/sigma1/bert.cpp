// `sigma1 bert`: what BERT's pretraining reads.
#include <optional>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/parallel.h"
#include "sigma1/data/bert_pretraining.h"
#include "sigma1/data/text_file.h"
#include "sigma1/train/progress.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"

namespace sigma1 {
namespace {

struct Options {
  std::string text, vocabulary, out;
  BertPreparation preparation;
  int64_t seed = 0;
  bool cased = false, json = false;
  int threads = 0;
};

// Shown once it has taken a while, on a terminal.
class Progress {
 public:
  void operator()(std::string_view what, int64_t done, int64_t total) {
    constexpr double kPatience = 2;  // seconds
    if (!line_ && steady_seconds() - started_ > kPatience) line_.emplace(stderr);
    if (line_) line_->update(what, done, total);
  }
  void finish() {
    if (line_) line_->finish();
  }

 private:
  double started_ = steady_seconds();
  std::optional<ProgressLine> line_;
};

struct Counts {
  int64_t documents = 0, sentences = 0, tokens = 0, pairs = 0;
  double filled = 0;  // share of positions that are not padding
};

Counts counts_of(const std::vector<BertDocument>& documents, const std::vector<uint16_t>& records,
                 int64_t time) {
  Counts counts{.documents = static_cast<int64_t>(documents.size())};
  for (const BertDocument& document : documents) {
    counts.sentences += static_cast<int64_t>(document.size());
    for (const auto& sentence : document) counts.tokens += static_cast<int64_t>(sentence.size());
  }
  auto size = static_cast<size_t>(BertInstance::kHead + time);
  for (size_t i = 0; i < records.size(); i += size) counts.filled += records[i];
  counts.pairs = static_cast<int64_t>(records.size() / size);
  counts.filled /= static_cast<double>(counts.pairs * time);
  return counts;
}

void prepare(Options options) {
  set_thread_count(options.threads);
  if (options.seed < 0) throw Error("--seed: expected 0 or more, got {}", options.seed);
  expect_writable(options.out);
  options.preparation.seed = static_cast<uint64_t>(options.seed);
  WordPiece pieces = WordPiece::load(options.vocabulary,
                                     options.cased ? LetterCase::as_written : LetterCase::lower);
  BertFileFacts facts{.time = static_cast<uint32_t>(options.preparation.time),
                      .vocabulary = static_cast<uint32_t>(pieces.size()),
                      .special = bert_special_tokens(pieces)};
  Progress progress;
  auto show = [&](std::string_view what, int64_t done, int64_t total) {
    progress(what, done, total);
  };
  std::vector<BertDocument> documents = bert_documents(read_text(options.text), pieces, show);
  std::vector<uint16_t> records = bert_records(documents, facts.special, options.preparation, show);
  write_bert_instances(options.out, facts, records);
  progress.finish();
  Counts counts = counts_of(documents, records, options.preparation.time);
  if (options.json) {
    return print_json({{"out", options.out},
                       {"documents", counts.documents},
                       {"sentences", counts.sentences},
                       {"tokens", counts.tokens},
                       {"pairs", counts.pairs},
                       {"filled", counts.filled}});
  }
  fmt::print(
      "{}: {} pairs of up to {} tokens ({:.0f} % filled) of {} documents, {} sentences, {} "
      "tokens\n",
      options.out, counts.pairs, options.preparation.time, 100 * counts.filled, counts.documents,
      counts.sentences, counts.tokens);
}

}  // namespace

void add_bert(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bert", "Prepare texts for BERT's pretraining");
  command->require_subcommand(1);
  command->footer(
      "Example:\n"
      "  sigma1 bert prepare wiki.txt.zst --vocab vocab.txt --time 128 --out wiki128.bert");
  CLI::App* make = command->add_subcommand("prepare", "Pairs of sentences, in a file to train on");
  make->add_option("TEXT", options->text,
                   "A file, a .zst or a folder: a blank line between documents")
      ->required();
  make->add_option("--vocab", options->vocabulary, "vocab.txt: a token a line")->required();
  make->add_option("--out", options->out, "File to write")->required();
  make->add_option("--time", options->preparation.time, "Tokens of a pair, [CLS] and [SEP] too")
      ->capture_default_str();
  make->add_option("--passes", options->preparation.passes,
                   "Times through the text, each with other pairs")
      ->capture_default_str();
  make->add_option("--seed", options->seed, "Of the pairs")->capture_default_str();
  make->add_flag("--cased", options->cased, "Keep case and accents");
  make->add_option("--threads", options->threads, "Threads; 0: all cores");
  make->add_flag("--json", options->json, "Print the counts as JSON");
  make->footer(
      "Half of the pairs go on as the text does, in half the second part is another document's; a\n"
      "tenth are short. Tokens are masked in training, anew each time.\n\n"
      "Example:\n"
      "  sigma1 bert prepare wiki.txt.zst --vocab vocab.txt --time 128 --out wiki128.bert\n"
      "  sigma1 train --set model=bert --train wiki128.bert --run runs/bert");
  make->callback([options] { prepare(*options); });
}

}  // namespace sigma1
