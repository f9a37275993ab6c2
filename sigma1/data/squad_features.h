// SQuAD as a model of fixed length reads it: each question beside a stretch of its context, as many
// windows as it takes to see the whole of it. Tokens know where in the context they stand, so that
// an answer is always cut from the text as it was written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/data/squad.h"
#include "sigma1/data/word_piece.h"

namespace sigma1 {

struct SquadFeatureOptions {
  int64_t max_length = 384;  // of [CLS] question [SEP] context [SEP], in tokens
  int64_t stride = 128;      // from a window's first context token to the next window's
  int64_t max_query = 64;    // longer questions are cut
};

struct SquadContext {
  std::string text;
  std::vector<WordPieceToken> tokens;

  // What stands from the first token to the last, both counted, accents behind it included: the
  // tokeniser drops those.
  std::string_view cut(size_t first, size_t last) const;
};

// A span of the context's tokens, both ends counted.
struct TokenSpan {
  int64_t first, last;

  bool operator==(const TokenSpan&) const = default;
};

enum class SquadAnswerState {
  placed,   // answer_span says where
  none,     // the data says that there is no answer
  unknown,  // the data gives no place, or another text stands there
};

struct SquadAsked {
  std::string id;
  std::vector<uint32_t> tokens;  // of the question, cut
  size_t context;                // index
  SquadAnswerState state;
  TokenSpan answer_span;  // of the first answer, which is what models learn
};

struct SquadWindow {
  size_t question;                       // index
  int64_t first_token, context_tokens;   // of the context
  int64_t context_at;                    // where the context begins in the window
  int64_t length;                        // with [CLS] and both [SEP]
  int64_t start_position, end_position;  // of the answer; 0, which is [CLS], where it is not inside

  bool holds(int64_t position) const {
    return position >= context_at && position < context_at + context_tokens;
  }
};

struct SquadFeatures {
  SquadVersion version;
  std::vector<SquadContext> contexts;
  std::vector<SquadAsked> questions;  // in the file's order
  std::vector<SquadWindow> windows;   // of question after question
  uint32_t cls, sep, pad;

  // [CLS] question [SEP] context [SEP], without padding.
  std::vector<uint32_t> ids(const SquadWindow& window) const;
};

// Throws Error when the options leave no room for context, or the vocabulary lacks a special token.
SquadFeatures make_squad_features(const SquadData& data, const WordPiece& pieces,
                                  const SquadFeatureOptions& options = {});

// Of the windows of one question, the index of the one in which a context token has most context on
// its scarcer side; the first of those that are equal. A token's score counts there alone.
size_t window_of_most_context(const SquadWindow* begin, const SquadWindow* end,
                              int64_t context_token);

}  // namespace sigma1
