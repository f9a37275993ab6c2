#include "sigma1/data/squad_features.h"

#include <algorithm>
#include <optional>

#include "sigma1/base/error.h"
#include "sigma1/data/unicode.h"
#include "sigma1/data/utf8.h"

namespace sigma1 {
namespace {

constexpr int64_t kSpecial = 3;  // [CLS] and two [SEP]

void check(const SquadFeatureOptions& options) {
  if (options.stride < 1) throw Error("stride: expected 1 or more, got {}", options.stride);
  if (options.max_query < 1) {
    throw Error("max-query: expected 1 or more, got {}", options.max_query);
  }
  int64_t room = options.max_length - options.max_query - kSpecial;
  if (room < 1) {
    throw Error("time: expected more than max-query {} and {} special tokens, got {}",
                options.max_query, kSpecial, options.max_length);
  }
}

// The byte where a character begins; empty beyond the text's end.
std::optional<size_t> byte_of(std::string_view text, int64_t character) {
  size_t at = 0;
  for (int64_t i = 0; i < character; ++i) {
    if (at >= text.size()) return std::nullopt;
    next_code_point(text, at);
  }
  return at;
}

// Tokens that share a byte with the answer. An answer that is all white space has none.
std::optional<TokenSpan> span_of(const SquadContext& context, const SquadAnswer& answer) {
  if (answer.start < 0 || answer.text.empty()) return std::nullopt;
  auto begin = byte_of(context.text, answer.start);
  if (!begin || context.text.compare(*begin, answer.text.size(), answer.text) != 0)
    return std::nullopt;
  size_t end = *begin + answer.text.size();
  const auto& tokens = context.tokens;
  auto first = std::ranges::find_if(tokens, [&](const auto& t) { return t.byte_end > *begin; });
  auto behind =
      std::find_if(first, tokens.end(), [&](const auto& t) { return t.byte_begin >= end; });
  if (first == behind) return std::nullopt;
  return TokenSpan{first - tokens.begin(), behind - tokens.begin() - 1};
}

void find_answer(SquadAsked& asked, const SquadQuestion& question, const SquadContext& context) {
  asked.state = SquadAnswerState::none;
  asked.answer_span = {0, 0};
  if (question.answers.empty()) return;
  auto span = span_of(context, question.answers.front());
  asked.state = span ? SquadAnswerState::placed : SquadAnswerState::unknown;
  if (span) asked.answer_span = *span;
}

class Maker {
 public:
  Maker(const WordPiece& pieces, const SquadFeatureOptions& options, SquadFeatures& made)
      : pieces_(pieces), options_(options), made_(made) {}

  // All texts at once: cutting them is what takes time, and it is done on all threads.
  void read(const SquadData& data) {
    std::vector<std::string_view> contexts, questions;
    for (const SquadArticle& article : data.articles) {
      for (const SquadParagraph& paragraph : article.paragraphs) {
        contexts.push_back(paragraph.context);
        for (const SquadQuestion& question : paragraph.questions)
          questions.push_back(question.text);
      }
    }
    // A passage that says "[SEP]" means these letters: it must not end the context.
    context_tokens_ = pieces_.encode_all(contexts, SpecialTokens::split);
    question_ids_ = pieces_.ids_of_all(questions, SpecialTokens::split);
    for (const SquadArticle& article : data.articles) {
      for (const SquadParagraph& paragraph : article.paragraphs) add(paragraph);
    }
  }

 private:
  void add(const SquadParagraph& paragraph) {
    size_t index = made_.contexts.size();
    made_.contexts.push_back({paragraph.context, std::move(context_tokens_[index])});
    for (const SquadQuestion& question : paragraph.questions) {
      std::vector<uint32_t>& ids = question_ids_[made_.questions.size()];
      ids.resize(std::min(ids.size(), static_cast<size_t>(options_.max_query)));
      SquadAsked& asked = made_.questions.emplace_back();
      asked.id = question.id;
      asked.tokens = std::move(ids);
      asked.context = index;
      find_answer(asked, question, made_.contexts[index]);
      add_windows(asked);
    }
  }

  void add_windows(const SquadAsked& asked) {
    auto count = static_cast<int64_t>(made_.contexts[asked.context].tokens.size());
    auto query = static_cast<int64_t>(asked.tokens.size());
    int64_t room = options_.max_length - query - kSpecial, first = 0;
    while (true) {
      int64_t length = std::min(room, count - first);
      SquadWindow window{.question = made_.questions.size() - 1,
                         .first_token = first,
                         .context_tokens = length,
                         .context_at = query + 2,
                         .length = query + length + kSpecial,
                         .start_position = 0,
                         .end_position = 0};
      label(window, asked);
      made_.windows.push_back(window);
      if (first + length >= count) return;
      first += std::min(length, options_.stride);
    }
  }

  static void label(SquadWindow& window, const SquadAsked& asked) {
    if (asked.state != SquadAnswerState::placed) return;
    auto [first, last] = asked.answer_span;
    int64_t end = window.first_token + window.context_tokens;
    if (first < window.first_token || last >= end) return;
    int64_t shift = window.context_at - window.first_token;
    window.start_position = first + shift;
    window.end_position = last + shift;
  }

  const WordPiece& pieces_;
  const SquadFeatureOptions& options_;
  SquadFeatures& made_;
  std::vector<std::vector<WordPieceToken>> context_tokens_;
  std::vector<std::vector<uint32_t>> question_ids_;
};

}  // namespace

std::string_view SquadContext::cut(size_t first, size_t last) const {
  size_t begin = tokens[first].byte_begin, end = tokens[last].byte_end;
  for (size_t next = end; next < text.size();) {
    if (!facts_of(next_code_point(text, next)).is(kMark)) break;
    end = next;
  }
  return std::string_view(text).substr(begin, end - begin);
}

std::vector<uint32_t> SquadFeatures::ids(const SquadWindow& window) const {
  const SquadAsked& asked = questions[window.question];
  std::vector<uint32_t> made{cls};
  made.insert(made.end(), asked.tokens.begin(), asked.tokens.end());
  made.push_back(sep);
  const std::vector<WordPieceToken>& tokens = contexts[asked.context].tokens;
  for (int64_t i = 0; i < window.context_tokens; ++i)
    made.push_back(tokens[static_cast<size_t>(window.first_token + i)].id);
  made.push_back(sep);
  return made;
}

SquadFeatures make_squad_features(const SquadData& data, const WordPiece& pieces,
                                  const SquadFeatureOptions& options) {
  check(options);
  SquadFeatures made{.version = data.version,
                     .contexts = {},
                     .questions = {},
                     .windows = {},
                     .cls = pieces.id("[CLS]"),
                     .sep = pieces.id("[SEP]"),
                     .pad = pieces.id("[PAD]")};
  Maker(pieces, options, made).read(data);
  return made;
}

size_t window_of_most_context(const SquadWindow* begin, const SquadWindow* end,
                              int64_t context_token) {
  // The scarcer side counts a hundred times what the window's length does, as BERT's authors have
  // it.
  constexpr int64_t kSide = 100;
  int64_t best = -1;
  size_t found = 0;
  for (const SquadWindow* window = begin; window != end; ++window) {
    int64_t left = context_token - window->first_token;
    int64_t right = window->context_tokens - 1 - left;
    if (left < 0 || right < 0) continue;
    int64_t score = kSide * std::min(left, right) + window->context_tokens;
    if (score <= best) continue;
    best = score;
    found = static_cast<size_t>(window - begin);
  }
  return found;
}

}  // namespace sigma1
