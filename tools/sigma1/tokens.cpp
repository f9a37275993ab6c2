// `sigma1 tokens`: a text as a file of ids, so that programs that read such files can be compared
// on the same text, and models of words be trained on any.
#include <fmt/format.h>

#include "sigma1/base/error.h"
#include "sigma1/data/text_file.h"
#include "sigma1/data/token_file.h"
#include "sigma1/data/word_piece.h"
#include "sigma1/train/corpus.h"
#include "tools/sigma1/commands.h"

namespace sigma1 {
namespace {

struct Options {
  std::string text, kind = "bytes", vocabulary, out;
  bool cased = false;
};

struct Tokens {
  std::vector<uint16_t> ids;
  size_t vocabulary;
};

Tokens word_pieces(const Options& options) {
  constexpr size_t kMostIds = 1 << 16;
  LetterCase letters = options.cased ? LetterCase::as_written : LetterCase::lower;
  WordPiece pieces = WordPiece::load(options.vocabulary, letters);
  if (pieces.size() > kMostIds) {
    throw Error("{}: expected at most {} tokens, as many as 16 bits tell apart, got {}",
                options.vocabulary, kMostIds, pieces.size());
  }
  std::string text = read_text(options.text);
  Tokens tokens{{}, pieces.size()};
  for (const std::vector<uint32_t>& line : pieces.ids_of_all(lines_of(text))) {
    for (uint32_t id : line) tokens.ids.push_back(static_cast<uint16_t>(id));
  }
  return tokens;
}

Tokens tokens_of(const Options& options) {
  bool in_words = options.kind == "word-pieces";
  if (in_words == options.vocabulary.empty()) {
    throw Error("--vocab: expected with --as word-pieces, and only there, got --as {}{}",
                options.kind, in_words ? " alone" : "");
  }
  if (in_words) return word_pieces(options);
  return {load_tokens(options.text, Vocabulary::bytes()), 256};
}

void run(const Options& options) {
  Tokens tokens = tokens_of(options);
  write_token_file(options.out, tokens.ids);
  fmt::print("{}: {} tokens; train with --train {} --set vocabulary={}\n", options.out,
             tokens.ids.size(), options.out, tokens.vocabulary);
}

}  // namespace

void add_tokens(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("tokens", "Make a file of token ids from a text");
  command->add_option("text", options->text, "A file, a .zst or a folder of texts")->required();
  command->add_option("--as", options->kind, "What a token is: bytes, word-pieces (BERT's)")
      ->capture_default_str()
      ->check(CLI::IsMember({"bytes", "word-pieces"}));
  command->add_option("--vocab", options->vocabulary, "vocab.txt of word pieces, a token a line");
  command->add_flag("--cased", options->cased, "Keep upper case and accents");
  command->add_option("--out", options->out, "File to write: llm.c's format, 16 bits an id")
      ->required();
  command->footer(
      "Examples:\n  sigma1 tokens corpus.txt.zst --as bytes --out corpus.bin\n"
      "  sigma1 tokens corpus.txt.zst --as word-pieces --vocab vocab.txt --out corpus.bin");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
