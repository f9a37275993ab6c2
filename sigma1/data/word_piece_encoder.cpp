#include "sigma1/data/word_piece_encoder.h"

#include <algorithm>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

constexpr uint32_t kLongestWord = 100;  // in characters; longer ones are [UNK]
constexpr size_t kMostSeen = size_t{1} << 17;

struct IdOutput {
  std::vector<uint32_t>& ids;

  void special(uint32_t id, uint32_t, uint32_t, uint32_t) { ids.push_back(id); }
  template <class Pieces>
  void word(const BertWord&, const Pieces& pieces) {
    for (const auto& piece : pieces) ids.push_back(piece.id);
  }
};

struct TokenOutput {
  std::vector<WordPieceToken>& tokens;

  void special(uint32_t id, uint32_t begin, uint32_t length, uint32_t character) {
    tokens.push_back({id, begin, begin + length, character, character + length});
  }
  template <class Pieces>
  void word(const BertWord& word, const Pieces& pieces) {
    uint32_t at = 0;
    for (const auto& piece : pieces) {
      Origin first = word.origin(at), last = word.origin(at + piece.length - 1);
      tokens.push_back(
          {piece.id, first.byte_begin, last.byte_end, first.character, last.character + 1});
      at += piece.length;
    }
  }
};

uint32_t characters_in(std::string_view text) {
  auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<uint32_t>(std::count_if(text.begin(), text.end(), starts));
}

}  // namespace

void WordPieceEncoder::append(std::string_view text, SpecialTokens special,
                              std::vector<WordPieceToken>& tokens) {
  TokenOutput output{tokens};
  encode(text, special, output);
}

void WordPieceEncoder::append(std::string_view text, SpecialTokens special,
                              std::vector<uint32_t>& ids) {
  IdOutput output{ids};
  encode(text, special, output);
}

// Special tokens are looked for in the text as written: no case is changed and no accent stripped.
template <class Output>
void WordPieceEncoder::encode(std::string_view text, SpecialTokens special, Output& output) {
  if (text.size() >= UINT32_MAX)
    throw Error("expected a text of less than 4 GiB, got {} bytes", text.size());
  uint32_t begin = 0, character = 0;
  size_t at = special == SpecialTokens::whole ? text.find('[') : std::string_view::npos;
  while (at != std::string_view::npos) {
    auto here =
        std::find_if(vocabulary_.special_.begin(), vocabulary_.special_.end(),
                     [&](const auto& token) { return text.substr(at).starts_with(token.first); });
    size_t next = at + 1;
    if (here != vocabulary_.special_.end()) {
      const auto& [name, id] = *here;
      auto length = static_cast<uint32_t>(name.size());
      encode_words(text, begin, static_cast<uint32_t>(at), character, output);
      output.special(id, static_cast<uint32_t>(at), length, character);
      character += length;
      next = at + length;
      begin = static_cast<uint32_t>(next);
    }
    at = text.find('[', next);
  }
  encode_words(text, begin, static_cast<uint32_t>(text.size()), character, output);
}

template <class Output>
void WordPieceEncoder::encode_words(std::string_view text, uint32_t begin, uint32_t end,
                                    uint32_t& character, Output& output) {
  reader_.start(text, begin, end, character);
  while (const BertWord* word = reader_.next()) output.word(*word, pieces_of(*word));
  character = reader_.character();
}

std::span<const WordPieceEncoder::Piece> WordPieceEncoder::pieces_of(const BertWord& word) {
  auto known = seen_.find(word.text);
  if (known == seen_.end()) {
    cut(word);
    bool keep = word.length <= kLongestWord && seen_.size() < kMostSeen;
    if (!keep) return cut_;
    Pieces place{static_cast<uint32_t>(kept_.size()), static_cast<uint32_t>(cut_.size())};
    kept_.insert(kept_.end(), cut_.begin(), cut_.end());
    known = seen_.emplace(word.text, place).first;
  }
  return std::span<const Piece>(kept_).subspan(known->second.first, known->second.count);
}

// The longest piece that the word starts with, then the longest that goes on, and so forth; [UNK]
// for the whole word where none does.
void WordPieceEncoder::cut(const BertWord& word) {
  cut_.clear();
  std::string_view rest = word.length <= kLongestWord ? word.text : std::string_view();
  bool found = !rest.empty();
  while (found && !rest.empty()) {
    const TextMap<uint32_t>& map = cut_.empty() ? vocabulary_.ids_ : vocabulary_.continuations_;
    std::string_view piece = rest.substr(0, vocabulary_.longest_);
    auto entry = map.find(piece);
    while (entry == map.end() && piece.size() > 1) {
      piece.remove_suffix(1);
      entry = map.find(piece);
    }
    found = entry != map.end();
    if (found) cut_.push_back({entry->second, characters_in(piece)});
    rest.remove_prefix(piece.size());
  }
  if (!found) cut_ = {{vocabulary_.unknown_, word.length}};
}

}  // namespace sigma1
