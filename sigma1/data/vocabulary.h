// The characters a model knows, numbered in the order of their code points, so that the same texts
// give the same ids on every machine and a checkpoint can carry its alphabet as plain text.
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

  // Every character of the texts, which are UTF-8.
  static Vocabulary of_texts(const std::vector<std::string_view>& texts);

  // Reads back what serialize() wrote: lines U+XXXX in ascending order. Throws Error with the line.
  static Vocabulary parse(std::string_view lines);
  std::string serialize() const;

  size_t size() const { return code_points_.size(); }
  uint32_t id(char32_t code_point) const;  // throws Error when the character is not known
  char32_t code_point(size_t id) const;    // throws Error when there is no such id

  // Throws Error for an unknown character, or when the ids of this vocabulary exceed 16 bits.
  std::vector<uint16_t> encode(std::string_view text) const;
  std::string decode(std::span<const uint16_t> ids) const;

  bool operator==(const Vocabulary& other) const { return code_points_ == other.code_points_; }

 private:
  explicit Vocabulary(std::vector<char32_t> ascending);

  std::vector<char32_t> code_points_;
  std::vector<uint32_t>
      ids_;  // by code point: corpora are long, and a search per character is slow
};

}  // namespace sigma1
