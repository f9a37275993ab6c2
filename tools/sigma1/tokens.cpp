// `sigma1 tokens`: a text as a file of ids, so that programs that read such files can be compared
// on the same bytes.
#include <fmt/format.h>

#include "sigma1/data/token_file.h"
#include "sigma1/train/corpus.h"
#include "tools/sigma1/commands.h"

namespace sigma1 {
namespace {

struct Options {
  std::string text, kind = "bytes", out;
};

void run(const Options& options) {
  std::vector<uint16_t> tokens = load_tokens(options.text, Vocabulary::bytes());
  write_token_file(options.out, tokens);
  fmt::print("{}: {} tokens; train with --train {} --set vocabulary=256\n", options.out,
             tokens.size(), options.out);
}

}  // namespace

void add_tokens(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("tokens", "Make a file of token ids from a text");
  command->add_option("text", options->text, "A file, a .zst or a folder of texts")->required();
  command->add_option("--as", options->kind, "What a token is: bytes")
      ->capture_default_str()
      ->check(CLI::IsMember({"bytes"}));
  command->add_option("--out", options->out, "File to write: llm.c's format, 16 bits an id")
      ->required();
  command->footer("Example:\n  sigma1 tokens corpus.txt.zst --as bytes --out corpus.bin");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
