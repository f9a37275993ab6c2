// What one thread needs to encode texts: its reader of words and the pieces of words it has seen.
// Few words make most of any text, so that most are found whole in one look.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/data/bert_words.h"
#include "sigma1/data/word_piece.h"

namespace sigma1 {

class WordPieceEncoder {
 public:
  explicit WordPieceEncoder(const WordPiece& pieces)
      : vocabulary_(pieces), reader_(pieces.letter_case()) {}

  void append(std::string_view text, SpecialTokens special, std::vector<WordPieceToken>& tokens);
  void append(std::string_view text, SpecialTokens special, std::vector<uint32_t>& ids);

 private:
  struct Piece {
    uint32_t id, length;  // in characters
  };
  struct Pieces {
    uint32_t first, count;
  };

  template <class Output>
  void encode(std::string_view text, SpecialTokens special, Output& output);
  template <class Output>
  void encode_words(std::string_view text, uint32_t begin, uint32_t end, uint32_t& character,
                    Output& output);
  std::span<const Piece> pieces_of(const BertWord& word);
  void cut(const BertWord& word);

  const WordPiece& vocabulary_;
  BertWordReader reader_;
  TextMap<Pieces> seen_;
  std::vector<Piece> kept_, cut_;
};

}  // namespace sigma1
