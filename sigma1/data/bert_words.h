// The first half of BERT's tokeniser: text without control characters, without case and accents
// where the vocabulary has none, cut at white space, punctuation and around Chinese characters. It
// does what the library `tokenizers` does, and knows of each character where it stood in the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sigma1 {

enum class LetterCase { lower, as_written };

// Where a character stood in the text.
struct Origin {
  uint32_t byte_begin, byte_end;
  uint32_t character;
};

// A word as the vocabulary sees it.
struct BertWord {
  std::string_view text;  // UTF-8
  uint32_t length;        // in characters
  const Origin* origins;  // of each character; nullptr: one byte each, from `begin` on
  Origin begin;

  Origin origin(uint32_t character) const {
    if (origins) return origins[character];
    return {begin.byte_begin + character, begin.byte_end + character, begin.character + character};
  }
};

// Reads the words of text[begin, end) one by one. The whole text has less than 4 GiB and is UTF-8.
class BertWordReader {
 public:
  explicit BertWordReader(LetterCase letter_case) : letter_case_(letter_case) {}

  // `character` is the index of the first one.
  void start(std::string_view text, uint32_t begin, uint32_t end, uint32_t character);
  // Nullptr at the end. The word is there until the next call.
  const BertWord* next();

  // How many characters were read: once next() has given nullptr, all of them.
  uint32_t character() const { return character_; }

 private:
  struct Part {
    char32_t code_point;
    bool added;  // beyond the first that one character of the text became
  };

  bool read_plain_word();
  void read_run();
  void take(char32_t code_point, Origin origin);
  void sort_marks();
  void finish_run();
  bool take_word_of_run();

  LetterCase letter_case_;
  std::string_view text_;
  uint32_t at_ = 0, end_ = 0, character_ = 0;
  BertWord word_{};
  std::string buffer_;

  // A run is what stands between white space where it is not plain: as read, and as normalised.
  std::vector<Part> parts_;
  std::vector<Origin> sources_, origins_;
  std::vector<char32_t> run_, decomposed_;
  size_t run_at_ = 0;
};

}  // namespace sigma1
