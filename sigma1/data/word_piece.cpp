#include "sigma1/data/word_piece.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/data/text_file.h"
#include "sigma1/data/unicode.h"
#include "sigma1/data/utf8.h"
#include "sigma1/data/word_piece_encoder.h"

namespace sigma1 {
namespace {

constexpr std::string_view kContinuation = "##", kUnknown = "[UNK]";
constexpr std::string_view kSpecial[] = {kUnknown, "[SEP]", "[CLS]", "[PAD]", "[MASK]"};

// Lines may end in blanks of any kind, which belong to no token.
std::string_view without_end_blanks(std::string_view line) {
  size_t end = 0;
  for (size_t at = 0; at < line.size();)
    if (!facts_of(next_code_point(line, at)).is(kWhiteSpace)) end = at;
  return line.substr(0, end);
}

// Encoders that are not at work: each keeps the words it has seen for the next texts.
class EncoderPool {
 public:
  explicit EncoderPool(const WordPiece& pieces) : pieces_(pieces) {}

  std::unique_ptr<WordPieceEncoder> take() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<WordPieceEncoder>(pieces_);
    std::unique_ptr<WordPieceEncoder> encoder = std::move(idle_.back());
    idle_.pop_back();
    return encoder;
  }
  void give_back(std::unique_ptr<WordPieceEncoder> encoder) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(encoder));
  }

 private:
  const WordPiece& pieces_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordPieceEncoder>> idle_;
};

template <class Token>
std::vector<std::vector<Token>> encode_side_by_side(const WordPiece& pieces,
                                                    std::span<const std::string_view> texts,
                                                    SpecialTokens special) {
  constexpr size_t kTextsAtOnce = 64;
  std::vector<std::vector<Token>> results(texts.size());
  EncoderPool pool(pieces);
  parallel_for(texts.size(), kTextsAtOnce, [&](size_t begin, size_t end) {
    std::unique_ptr<WordPieceEncoder> encoder = pool.take();
    for (size_t i = begin; i < end; ++i) encoder->append(texts[i], special, results[i]);
    pool.give_back(std::move(encoder));
  });
  return results;
}

}  // namespace

WordPiece::WordPiece(std::string_view vocabulary, LetterCase letter_case)
    : letter_case_(letter_case) {
  while (!vocabulary.empty()) {
    size_t end = vocabulary.find('\n');
    tokens_.emplace_back(without_end_blanks(vocabulary.substr(0, end)));
    vocabulary.remove_prefix(end == std::string_view::npos ? vocabulary.size() : end + 1);
  }
  for (size_t i = 0; i < tokens_.size(); ++i) {
    auto id = static_cast<uint32_t>(i);
    const std::string& token = tokens_[i];
    longest_ = std::max(longest_, token.size());
    ids_[token] = id;  // where a token stands twice, the last counts
    if (token.starts_with(kContinuation)) continuations_[token.substr(kContinuation.size())] = id;
  }
  for (std::string_view name : kSpecial)
    if (auto special = find(name)) special_.emplace_back(name, *special);
  unknown_ = id(kUnknown);
}

WordPiece WordPiece::load(const std::string& path, LetterCase letter_case) {
  try {
    WordPiece pieces(read_text(path), letter_case);
    pieces.path_ = path;
    return pieces;
  } catch (const Error& error) {
    throw Error("vocabulary {}: {}", path, error.what());
  }
}

const std::string& WordPiece::token(uint32_t id) const {
  if (id >= tokens_.size())
    throw Error("expected an id below {}, the size of the vocabulary, got {}", tokens_.size(), id);
  return tokens_[id];
}

std::optional<uint32_t> WordPiece::find(std::string_view token) const {
  auto entry = ids_.find(token);
  return entry == ids_.end() ? std::nullopt : std::optional(entry->second);
}

uint32_t WordPiece::id(std::string_view token) const {
  if (auto id = find(token)) return *id;
  throw Error("{}expected a line {} among the {} of the vocabulary, got none",
              path_.empty() ? "" : fmt::format("vocabulary {}: ", path_), token, tokens_.size());
}

std::vector<WordPieceToken> WordPiece::encode(std::string_view text, SpecialTokens special) const {
  std::vector<WordPieceToken> tokens;
  WordPieceEncoder(*this).append(text, special, tokens);
  return tokens;
}

std::vector<std::vector<WordPieceToken>> WordPiece::encode_all(
    std::span<const std::string_view> texts, SpecialTokens special) const {
  return encode_side_by_side<WordPieceToken>(*this, texts, special);
}

std::vector<std::vector<uint32_t>> WordPiece::ids_of_all(std::span<const std::string_view> texts,
                                                         SpecialTokens special) const {
  return encode_side_by_side<uint32_t>(*this, texts, special);
}

}  // namespace sigma1
