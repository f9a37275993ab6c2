// BERT's tokeniser: words (bert_words.h) cut into the longest pieces that a vocabulary has. It
// gives the ids of the library `tokenizers` (BertWordPieceTokenizer), and where in the text each
// token stands, because answers of SQuAD are spans of text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sigma1/base/text.h"
#include "sigma1/data/bert_words.h"

namespace sigma1 {

// Offsets into the text as it was given, ends behind the last.
struct WordPieceToken {
  uint32_t id;
  uint32_t byte_begin, byte_end;
  uint32_t character_begin, character_end;

  bool operator==(const WordPieceToken&) const = default;
};

// What "[MASK]" is in a text: the token of this name, or three words like any other.
enum class SpecialTokens { whole, split };

class WordPiece {
 public:
  // `vocabulary` has a token a line, whose id is its line's number from 0. Throws Error when there
  // is no [UNK].
  WordPiece(std::string_view vocabulary, LetterCase letter_case);
  // Reads a vocab.txt, plain or zstd. Throws Error that names the file.
  static WordPiece load(const std::string& path, LetterCase letter_case);

  size_t size() const { return tokens_.size(); }
  LetterCase letter_case() const { return letter_case_; }
  const std::string& token(uint32_t id) const;  // throws Error when there is no such id
  std::optional<uint32_t> find(std::string_view token) const;
  uint32_t id(std::string_view token) const;  // throws Error when there is no such token

  // Of UTF-8 text below 4 GiB; throws Error for another. No [CLS] or [SEP] is added.
  std::vector<WordPieceToken> encode(std::string_view text,
                                     SpecialTokens special = SpecialTokens::whole) const;

  // Many texts side by side on all threads; the second gives ids alone.
  std::vector<std::vector<WordPieceToken>> encode_all(
      std::span<const std::string_view> texts, SpecialTokens special = SpecialTokens::whole) const;
  std::vector<std::vector<uint32_t>> ids_of_all(std::span<const std::string_view> texts,
                                                SpecialTokens special = SpecialTokens::whole) const;

 private:
  friend class WordPieceEncoder;

  std::string path_;  // for messages; empty where the vocabulary is of no file
  LetterCase letter_case_;
  std::vector<std::string> tokens_;
  TextMap<uint32_t> ids_;
  TextMap<uint32_t> continuations_;  // without their ##
  std::vector<std::pair<std::string, uint32_t>> special_;
  uint32_t unknown_ = 0;
  size_t longest_ = 0;  // of a token, in bytes
};

}  // namespace sigma1
