// `sigma1 tokenize`: what BERT's tokeniser makes of texts.
#include <algorithm>
#include <filesystem>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/data/text_file.h"
#include "sigma1/data/utf8.h"
#include "sigma1/data/word_piece.h"
#include "sigma1/train/progress.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"

namespace sigma1 {
namespace {

struct Options {
  std::string vocabulary;
  std::vector<std::string> texts;
  bool cased = false, split_special = false, offsets = false, count = false, json = false;
  int threads = 0;

  SpecialTokens special() const {
    return split_special ? SpecialTokens::split : SpecialTokens::whole;
  }
};

// A file's text where the argument names one, else the argument.
std::string text_of(const std::string& argument) {
  std::error_code ignored;
  auto status = std::filesystem::status(argument, ignored);
  bool is_file = std::filesystem::exists(status) && !std::filesystem::is_directory(status);
  if (is_file) return read_text(argument);
  if (auto fault = find_utf8_fault(argument))
    throw Error("expected UTF-8 text, got {} (at byte offset {})", fault->reason, fault->offset);
  return argument;
}

// A flag that is not known is left over too.
std::vector<std::string> texts_from(std::vector<std::string> arguments) {
  if (arguments.empty()) throw Error("expected a text or a file, got none (see --help)");
  for (const std::string& argument : arguments)
    if (argument.starts_with("--") && argument.find(' ') == std::string::npos)
      throw Error("unknown flag '{}' (see --help)", argument);
  return arguments;
}

void print_as_json(const Options& options, const WordPiece& pieces) {
  auto list = nlohmann::ordered_json::array();
  for (const std::string& argument : options.texts) {
    nlohmann::ordered_json entry{{"ids", nlohmann::json::array()},
                                 {"tokens", nlohmann::json::array()}};
    if (options.offsets)
      for (const char* key : {"offsets", "byte_offsets"}) entry[key] = nlohmann::json::array();
    for (const WordPieceToken& t : pieces.encode(text_of(argument), options.special())) {
      entry["ids"].push_back(t.id);
      entry["tokens"].push_back(pieces.token(t.id));
      if (!options.offsets) continue;
      entry["offsets"].push_back({t.character_begin, t.character_end});
      entry["byte_offsets"].push_back({t.byte_begin, t.byte_end});
    }
    list.push_back(std::move(entry));
  }
  // One line a text: indented, every number would be on a line of its own.
  fmt::print("[");
  for (size_t i = 0; i < list.size(); ++i) fmt::print("{}{}", i == 0 ? "" : ",\n ", list[i].dump());
  fmt::print("]\n");
}

void print_table(const Options& options, const WordPiece& pieces) {
  std::vector<std::string> headings{"id", "token"};
  if (options.offsets) headings.insert(headings.end(), {"characters", "bytes", "text"});
  Table table(headings);
  for (const std::string& argument : options.texts) {
    std::string text = text_of(argument);
    for (const WordPieceToken& t : pieces.encode(text, options.special())) {
      std::vector<std::string> row{fmt::format("{}", t.id), pieces.token(t.id)};
      if (options.offsets) {
        row.push_back(fmt::format("{}:{}", t.character_begin, t.character_end));
        row.push_back(fmt::format("{}:{}", t.byte_begin, t.byte_end));
        row.push_back(text.substr(t.byte_begin, t.byte_end - t.byte_begin));
      }
      table.add(std::move(row));
    }
  }
  table.print();
}

void print_counts(const Options& options, const WordPiece& pieces) {
  uint32_t unknown = pieces.id("[UNK]");
  size_t bytes = 0, tokens = 0, unknown_tokens = 0;
  double seconds = 0;
  for (const std::string& argument : options.texts) {
    std::string text = text_of(argument);
    double start = steady_seconds();
    auto ids = pieces.ids_of_all(lines_of(text), options.special());
    seconds += steady_seconds() - start;
    bytes += text.size();
    for (const auto& line : ids) {
      tokens += line.size();
      unknown_tokens += static_cast<size_t>(std::count(line.begin(), line.end(), unknown));
    }
  }
  double rate = static_cast<double>(bytes) / 1e6 / std::max(seconds, 1e-9);
  if (options.json)
    return print_json({{"bytes", bytes},
                       {"tokens", tokens},
                       {"unknown", unknown_tokens},
                       {"megabytes_per_second", rate}});
  fmt::print("{} tokens of {} bytes, {} of them [UNK]; {:.1f} MB/s on {} threads\n", tokens, bytes,
             unknown_tokens, rate, thread_count());
}

void run(const Options& options) {
  set_thread_count(options.threads);
  LetterCase letters = options.cased ? LetterCase::as_written : LetterCase::lower;
  WordPiece pieces = WordPiece::load(options.vocabulary, letters);
  if (options.count) return print_counts(options, pieces);
  options.json ? print_as_json(options, pieces) : print_table(options, pieces);
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("tokenize", "Show the WordPiece tokens of a text (BERT)");
  command->add_option("--vocab", options->vocabulary, "vocab.txt: a token a line")->required();
  command->add_flag("--cased", options->cased,
                    "Keep case and accents, for a vocabulary that has them");
  command->add_flag("--split-special", options->split_special,
                    "Take [MASK], [CLS] and the like in the text for words, not for their tokens");
  command->add_flag("--offsets", options->offsets,
                    "Also where each token stands, in characters and in bytes");
  command->add_flag("--count", options->count, "Only count tokens, and tell how fast");
  command->add_option("--threads", options->threads, "Threads of --count; 0: all cores");
  command->add_flag("--json", options->json, "Print a JSON list, an object for each text");
  command->footer(
      "sigma1 tokenize --vocab FILE [OPTIONS] TEXT...\n"
      "A TEXT that names a file is read from it, plain or .zst. No [CLS] or [SEP] is added. Ids "
      "are\n"
      "those of the library `tokenizers` (BertWordPieceTokenizer).\n\n"
      "Examples:\n  sigma1 tokenize --vocab vocab.txt \"Unaffable cafés\"\n"
      "  sigma1 tokenize --vocab vocab.txt --offsets --json context.txt\n"
      "  sigma1 tokenize --vocab vocab.txt --count wiki.txt.zst");
  // Texts are what CLI11 leaves over, because it would take "[MASK]" for a list of one.
  command->allow_extras();
  command->callback([options, command] {
    options->texts = texts_from(command->remaining());
    run(*options);
  });
}

}  // namespace sigma1
