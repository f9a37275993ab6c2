#include "sigma1/data/squad_features.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/base/error.h"
#include "tests/data/squad_example.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

using Ids = std::vector<uint32_t>;
constexpr SquadFeatureOptions kSmall{.max_length = 8, .stride = 2, .max_query = 2};

std::vector<std::string> tokens_of(const SquadFeatures& made, size_t window) {
  WordPiece pieces = letter_pieces();
  std::vector<std::string> tokens;
  for (uint32_t id : made.ids(made.windows.at(window))) tokens.push_back(pieces.token(id));
  return tokens;
}
using Tokens = std::vector<std::string>;

// The text that a window's labels point at, [CLS] as "".
std::string labelled(const SquadFeatures& made, const SquadWindow& window) {
  if (window.start_position == 0) return "";
  const SquadContext& context = made.contexts[made.questions[window.question].context];
  auto token = [&](int64_t position) {
    return static_cast<size_t>(position - window.context_at + window.first_token);
  };
  return std::string(context.cut(token(window.start_position), token(window.end_position)));
}

TEST(SquadFeatures, OneWindowWhereAllFits) {
  auto data = one_paragraph("a b c", {{"q", "who", {{"b c", 2}}}});
  SquadFeatures made = make_squad_features(data, letter_pieces(), kSmall);
  ASSERT_EQ(made.windows.size(), 1u);
  EXPECT_EQ(tokens_of(made, 0), (Tokens{"[CLS]", "who", "[SEP]", "a", "b", "c", "[SEP]"}));
  const SquadWindow& window = made.windows[0];
  EXPECT_EQ(window.length, 7);
  EXPECT_EQ(window.context_at, 3);
  EXPECT_EQ(window.start_position, 4);
  EXPECT_EQ(window.end_position, 5);
  EXPECT_TRUE(window.holds(5));
  EXPECT_FALSE(window.holds(6));
  EXPECT_FALSE(window.holds(2));
}

TEST(SquadFeatures, WindowsSlideByTheStrideUntilTheEnd) {
  // Room for 4 of 7 tokens: a-d, c-f, e-g.
  auto data = one_paragraph("a b c d e f g", {{"q", "who", {{"d e", 6}}}});
  SquadFeatures made = make_squad_features(data, letter_pieces(), kSmall);
  ASSERT_EQ(made.windows.size(), 3u);
  EXPECT_EQ(tokens_of(made, 0), (Tokens{"[CLS]", "who", "[SEP]", "a", "b", "c", "d", "[SEP]"}));
  EXPECT_EQ(tokens_of(made, 1), (Tokens{"[CLS]", "who", "[SEP]", "c", "d", "e", "f", "[SEP]"}));
  EXPECT_EQ(tokens_of(made, 2), (Tokens{"[CLS]", "who", "[SEP]", "e", "f", "g", "[SEP]"}));
  // Half of an answer is none.
  EXPECT_EQ(labelled(made, made.windows[0]), "");
  EXPECT_EQ(labelled(made, made.windows[1]), "d e");
  EXPECT_EQ(labelled(made, made.windows[2]), "");
}

TEST(SquadFeatures, AStrideBeyondTheWindowSkipsNothing) {
  SquadFeatureOptions wide = kSmall;
  wide.stride = 100;
  auto data = one_paragraph("a b c d e f g", {{"q", "who", {}}});
  SquadFeatures made = make_squad_features(data, letter_pieces(), wide);
  ASSERT_EQ(made.windows.size(), 2u);
  EXPECT_EQ(made.windows[1].first_token, 4);
  EXPECT_EQ(made.windows[1].context_tokens, 3);
}

TEST(SquadFeatures, CutsLongQuestions) {
  auto data = one_paragraph("a b c d", {{"q", "h g f e d", {}}});
  SquadFeatures made = make_squad_features(data, letter_pieces(), kSmall);
  EXPECT_EQ(tokens_of(made, 0), (Tokens{"[CLS]", "h", "g", "[SEP]", "a", "b", "c", "[SEP]"}));
}

TEST(SquadFeatures, MostContextIsTheScarcerSide) {
  auto data = one_paragraph("a b c d e f g", {{"q", "who", {}}});
  SquadFeatures made = make_squad_features(data, letter_pieces(), kSmall);
  std::vector<size_t> best;
  for (int64_t token = 0; token < 7; ++token)
    best.push_back(window_of_most_context(made.windows.data(), made.windows.data() + 3, token));
  // c has (2, 1) in the first and (0, 3) in the second; e (2, 1) in the second, (0, 2) in the
  // third; f (3, 0) in the second and (1, 1) in the third.
  EXPECT_EQ(best, (std::vector<size_t>{0, 0, 0, 1, 1, 2, 2}));
}

TEST(SquadFeatures, AnswersAtBothEndsAndInsideWords) {
  auto data = one_paragraph("ax b cx", {{"first", "who", {{"ax", 0}}},
                                        {"last", "who", {{"cx", 5}}},
                                        {"inside", "who", {{"x", 1}}},
                                        {"part", "who", {{"x b c", 1}}}});
  SquadFeatures made = make_squad_features(data, letter_pieces());
  EXPECT_EQ(labelled(made, made.windows[0]), "ax");
  EXPECT_EQ(labelled(made, made.windows[1]), "cx");
  EXPECT_EQ(labelled(made, made.windows[2]), "x");
  EXPECT_EQ(labelled(made, made.windows[3]), "x b c");
}

TEST(SquadFeatures, CharactersAreCountedNotBytes) {
  // An accent written apart, one written with its letter, and a character beyond the first plane.
  std::string context = "\U0001F600 cafe\u0301 b Caf\u00e9.";
  auto data = one_paragraph(context, {{"apart", "who", {{"cafe\u0301", 2}}},
                                      {"joined", "who", {{"Caf\u00e9", 10}}},
                                      {"end", "who", {{".", 14}}}});
  SquadFeatures made = make_squad_features(data, letter_pieces());
  EXPECT_EQ(labelled(made, made.windows[0]), "cafe\u0301");
  EXPECT_EQ(labelled(made, made.windows[1]), "Caf\u00e9");
  EXPECT_EQ(labelled(made, made.windows[2]), ".");
}

TEST(SquadFeatures, APassageCannotSpellASpecialToken) {
  auto data = one_paragraph("a [SEP] b", {{"q", "[SEP]", {}}});
  SquadFeatures made = make_squad_features(data, letter_pieces());
  Ids ids = made.ids(made.windows[0]);
  EXPECT_EQ(std::ranges::count(ids, made.sep), 2);
}

TEST(SquadFeatures, TellsAnswersItCannotPlace) {
  auto data = one_paragraph("a b  c", {{"fine", "who", {{"b", 2}, {"nowhere", -1}}},
                                       {"elsewhere", "who", {{"b", 0}}},
                                       {"beyond", "who", {{"c", 77}}},
                                       {"no place", "who", {{"b", -1}}},
                                       {"blank", "who", {{" ", 4}}},
                                       {"empty", "who", {{"", 0}}},
                                       {"none", "who", {}}});
  SquadFeatures made = make_squad_features(data, letter_pieces());
  EXPECT_EQ(made.questions[0].state, SquadAnswerState::placed);
  for (size_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(made.questions[i].state, SquadAnswerState::unknown) << made.questions[i].id;
    EXPECT_EQ(made.windows[i].start_position, 0);
  }
  EXPECT_EQ(made.questions[6].state, SquadAnswerState::none);
}

TEST(SquadFeatures, AnEmptyContextIsAWindowToo) {
  auto data = one_paragraph("", {{"q", "", {}}});
  SquadFeatures made = make_squad_features(data, letter_pieces());
  ASSERT_EQ(made.windows.size(), 1u);
  EXPECT_EQ(tokens_of(made, 0), (Tokens{"[CLS]", "[SEP]", "[SEP]"}));
}

TEST(SquadFeatures, RefusesWhatLeavesNoRoom) {
  auto data = one_paragraph("a", {});
  auto error = [&](SquadFeatureOptions options) {
    return error_of([&] { make_squad_features(data, letter_pieces(), options); });
  };
  EXPECT_NE(error({.max_length = 67}).find("time: "), std::string::npos);
  EXPECT_NE(error({.stride = 0}).find("stride"), std::string::npos);
  EXPECT_NE(error({.max_query = 0}).find("max-query"), std::string::npos);
  EXPECT_EQ(error({.max_length = 68}), "no error");
  WordPiece lacking("[UNK]\n[CLS]\n[SEP]\na", LetterCase::lower);
  EXPECT_NE(error_of([&] { make_squad_features(data, lacking); }).find("[PAD]"), std::string::npos);
}

}  // namespace
}  // namespace sigma1
