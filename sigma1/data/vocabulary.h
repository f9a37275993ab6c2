// The tokens a model knows: characters, numbered in the order of their code points, so that the
// same texts give the same ids on every machine and a checkpoint can carry its alphabet as plain
// text; bytes; or ids whose meaning only the program knows that made them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sigma1 {

class Vocabulary {
 public:
  Vocabulary() = default;

  enum class Kind { characters, bytes, ids };

  // Every character of the texts, which are UTF-8.
  static Vocabulary of_texts(const std::vector<std::string_view>& texts);
  static Vocabulary bytes();
  // 0 … count − 1. Throws Error unless there is one and all have 16 bits.
  static Vocabulary of_ids(int64_t count);

  // Reads back what serialize() wrote: lines U+XXXX in ascending order, with "room N" before them
  // where a model has room for more, or "bytes", or "ids N". Throws Error with the line.
  static Vocabulary parse(std::string_view lines);
  std::string serialize() const;

  Kind kind() const { return kind_; }
  // What a token is called: character, byte, token.
  std::string_view token_name() const;

  // What a model makes room for: of ids up to a multiple of 64, of many characters of texts up to a
  // multiple of 8, because rows of odd length are slow to compute with; the ids behind the last
  // stand for nothing.
  size_t size() const;
  size_t known() const;  // tokens that can occur

  uint32_t id(char32_t code_point) const;  // throws Error when the character is not known
  char32_t code_point(size_t id) const;    // throws Error when there is no such id

  // Throws Error for an unknown character, or when the ids of this vocabulary exceed 16 bits. The
  // text of ids is their numbers, with spaces between.
  std::vector<uint16_t> encode(std::string_view text) const;
  std::string decode(std::span<const uint16_t> ids) const;

  bool operator==(const Vocabulary& other) const {
    return kind_ == other.kind_ && count_ == other.count_ && code_points_ == other.code_points_;
  }

 private:
  // With room for that many, or for all of them.
  explicit Vocabulary(std::vector<char32_t> ascending, size_t room = 0);
  Vocabulary(Kind kind, size_t count) : kind_(kind), count_(count) {}
  void expect_known(size_t id) const;

  Kind kind_ = Kind::characters;
  size_t count_ = 0;  // of bytes or ids
  std::vector<char32_t> code_points_;
  size_t room_ = 0;  // of characters
  std::vector<uint32_t>
      ids_;  // by code point: corpora are long, and a search per character is slow
};

}  // namespace sigma1
