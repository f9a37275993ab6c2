// Whole corpora, by checksums of what the library `tokenizers` makes of them. They are too large
// for the repository: the environment variable SIGMA1_CORPORA names a folder with vocab/,
// wikipedia/, squad/ and unicode/ (files as in word_piece_reference.json).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sigma1/base/crc32c.h"
#include "sigma1/base/file.h"
#include "sigma1/base/text.h"
#include "sigma1/data/text_file.h"
#include "sigma1/data/word_piece.h"

namespace sigma1 {
namespace {

using nlohmann::json;

// Lines of a text; contexts and questions of SQuAD, each paragraph's context first.
std::vector<std::string> texts_of(const std::string& path) {
  std::string content = read_text(path);
  if (path.find(".json") == std::string::npos) return split(content, '\n');
  std::vector<std::string> texts;
  json dataset = json::parse(content);
  for (const json& article : dataset["data"]) {
    for (const json& paragraph : article["paragraphs"]) {
      texts.push_back(paragraph["context"]);
      for (const json& question : paragraph["qas"]) texts.push_back(question["question"]);
    }
  }
  return texts;
}

struct Checksums {
  size_t tokens = 0;
  uint32_t ids = 0, offsets = 0;

  void add(const std::vector<WordPieceToken>& text) {
    std::vector<uint32_t> id_words, offset_words;
    for (const WordPieceToken& token : text) {
      id_words.push_back(token.id);
      offset_words.insert(offset_words.end(), {token.character_begin, token.character_end});
    }
    tokens += text.size();
    ids = crc32c(std::as_bytes(std::span(id_words)), ids);
    offsets = crc32c(std::as_bytes(std::span(offset_words)), offsets);
  }
};

// A part at a time: of all tokens with their offsets there are many times the text.
Checksums checksums_of(const WordPiece& pieces, const std::vector<std::string>& texts) {
  constexpr size_t kTexts = 16384;
  Checksums sums;
  for (size_t begin = 0; begin < texts.size(); begin += kTexts) {
    size_t end = std::min(texts.size(), begin + kTexts);
    std::vector<std::string_view> part(texts.begin() + static_cast<ptrdiff_t>(begin),
                                       texts.begin() + static_cast<ptrdiff_t>(end));
    for (const auto& tokens : pieces.encode_all(part)) sums.add(tokens);
  }
  return sums;
}

TEST(WordPieceCorpora, AgreeWithTheReference) {
  const char* variable = std::getenv("SIGMA1_CORPORA");
  if (!variable) GTEST_SKIP() << "SIGMA1_CORPORA names no folder";
  std::string folder = std::string(variable) + "/";
  json reference = json::parse(read_file(SIGMA1_TEST_DATA "/word_piece_reference.json"));
  size_t checked = 0;
  for (const json& corpus : reference["corpora"]) {
    std::string file = folder + corpus["file"].get<std::string>();
    std::string vocabulary = folder + corpus["vocabulary"].get<std::string>();
    if (!std::filesystem::exists(file) || !std::filesystem::exists(vocabulary)) continue;
    LetterCase letters = corpus["cased"] ? LetterCase::as_written : LetterCase::lower;
    std::vector<std::string> texts = texts_of(file);
    Checksums sums = checksums_of(WordPiece::load(vocabulary, letters), texts);
    EXPECT_EQ(texts.size(), corpus["texts"]) << file;
    EXPECT_EQ(sums.tokens, corpus["tokens"]) << file;
    EXPECT_EQ(sums.ids, corpus["ids_crc32c"]) << file << " with " << vocabulary;
    EXPECT_EQ(sums.offsets, corpus["offsets_crc32c"]) << file << " with " << vocabulary;
    ++checked;
  }
  EXPECT_GT(checked, 0u) << "none of the reference's files is in " << folder;
}

}  // namespace
}  // namespace sigma1
