#include "sigma1/data/squad_predictions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "tests/data/squad_example.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

constexpr SquadFeatureOptions kSmall{.max_length = 8, .stride = 2, .max_query = 2};

// Scores by hand: zero but where a test says otherwise.
class Scores {
 public:
  explicit Scores(const SquadFeatures& features) : features_(features) {
    for (const SquadWindow& window : features.windows) {
      start_.emplace_back(static_cast<size_t>(window.length));
      end_.emplace_back(static_cast<size_t>(window.length));
    }
  }

  // Of tokens of the context, counted from its beginning; -1 is [CLS].
  Scores& start(size_t window, int64_t token, float score) {
    return set(start_, window, token, score);
  }
  Scores& end(size_t window, int64_t token, float score) { return set(end_, window, token, score); }

  std::vector<SquadPrediction> predict(const SquadPredictionOptions& options = {}) const {
    std::vector<SpanScores> scores;
    for (size_t i = 0; i < start_.size(); ++i) scores.push_back({start_[i], end_[i]});
    return predict_squad(features_, scores, options);
  }

 private:
  Scores& set(std::vector<std::vector<float>>& all, size_t window, int64_t token, float score) {
    const SquadWindow& at = features_.windows.at(window);
    int64_t position = token < 0 ? 0 : at.context_at + token - at.first_token;
    all.at(window).at(static_cast<size_t>(position)) = score;
    return *this;
  }

  const SquadFeatures& features_;
  std::vector<std::vector<float>> start_, end_;
};

SquadFeatures features_of(const std::string& context, SquadVersion version = SquadVersion::v1_1,
                          const SquadFeatureOptions& options = kSmall) {
  return make_squad_features(one_paragraph(context, {{"q", "who", {}}}, version), letter_pieces(),
                             options);
}

TEST(SquadPredictions, CutsTheTextAsWritten) {
  SquadFeatures features = features_of("A  Cafe\u0301,\tb");
  auto made = Scores(features).start(0, 0, 5).end(0, 1, 5).predict();
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].id, "q");
  EXPECT_EQ(made[0].text, "A  Cafe\u0301");
}

TEST(SquadPredictions, TheBestWindowWins) {
  SquadFeatures features = features_of("a b c d e f g");
  auto made = Scores(features).start(0, 0, 3).end(0, 1, 3).start(2, 5, 4).end(2, 6, 3).predict();
  EXPECT_EQ(made[0].text, "f g");
  ASSERT_GE(made[0].best.size(), 2u);
  EXPECT_EQ(made[0].best[0].score, 7);
  EXPECT_GT(made[0].best[0].probability, made[0].best[1].probability);
  double sum = 0;
  for (const SquadSpan& span : made[0].best) sum += span.probability;
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(SquadPredictions, ATokenCountsWhereItHasMostContext) {
  // c belongs to the first window: the second window's high opinion of it is not asked for.
  SquadFeatures features = features_of("a b c d e f g");
  auto made = Scores(features).start(1, 2, 9).end(1, 3, 1).start(1, 4, 2).predict();
  EXPECT_EQ(made[0].best.front().score, 2);
  EXPECT_TRUE(made[0].text.starts_with("e")) << made[0].text;
}

TEST(SquadPredictions, AnswersHaveAnEndBehindTheirStartAndALength) {
  SquadFeatures features = features_of("a b c d");
  Scores scores = Scores(features).start(0, 3, 9).end(0, 0, 9).start(0, 0, 1).end(0, 3, 8);
  EXPECT_EQ(scores.predict()[0].text, "d");
  Scores far = Scores(features).start(0, 0, 9).end(0, 3, 9).end(0, 2, 1);
  EXPECT_EQ(far.predict()[0].text, "a b c d");
  EXPECT_EQ(far.predict({.max_answer = 3})[0].text, "a b c");
}

TEST(SquadPredictions, OnlyTheContextAnswers) {
  SquadFeatures features = features_of("a b");
  auto made = Scores(features).start(0, -1, 99).end(0, -1, 99).end(0, 1, 1).predict();
  EXPECT_EQ(made[0].text, "a b");
  EXPECT_EQ(Scores(features_of("")).predict()[0].text, "");
}

TEST(SquadPredictions, NoTextTwiceAndNoMoreThanAsked) {
  SquadFeatures features = features_of("a a a");
  auto made = Scores(features).start(0, 0, 1).end(0, 0, 1).predict();
  std::vector<std::string> texts;
  for (const SquadSpan& span : made[0].best) texts.push_back(span.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "a a", "a a a"}));
  EXPECT_EQ(Scores(features).predict({.best = 2})[0].best.size(), 2u);
}

TEST(SquadPredictions, EqualScoresAreOrderedByPlace) {
  SquadFeatures features = features_of("a b c d e f g");
  EXPECT_EQ(Scores(features).predict()[0].text, "a");
}

TEST(SquadPredictions, NumbersThatAreNoneAreNoAnswer) {
  SquadFeatures features = features_of("a b c");
  float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Scores(features).start(0, 0, nan).start(0, 1, 2).end(0, 2, 2).predict()[0].text, "b c");
  EXPECT_EQ(Scores(features).start(0, 2, infinity).end(0, 2, -infinity).predict()[0].text, "a");
}

TEST(SquadPredictions, NoAnswerByTheThreshold) {
  SquadFeatures features = features_of("a b c d e f g", SquadVersion::v2_0);
  Scores scores = Scores(features).start(0, 0, 3).end(0, 0, 2);
  for (size_t window = 0; window < 3; ++window) scores.start(window, -1, 6);
  scores.start(1, -1, 5.5F);
  // The window least sure of no answer speaks: 5.5 against 5.
  auto made = scores.predict();
  EXPECT_EQ(made[0].text, "");
  EXPECT_DOUBLE_EQ(made[0].null_odds, 0.5);
  EXPECT_EQ(made[0].best.front().text, "");
  EXPECT_EQ(made[0].best[1].text, "a");
  EXPECT_EQ(scores.predict({.null_threshold = 0.5})[0].text, "a");
  EXPECT_EQ(scores.predict({.null_threshold = 0.49})[0].text, "");
}

TEST(SquadPredictions, JsonIsReadBackByTheEvaluation) {
  SquadFeatures features = features_of("\u201cA\u201d \U0001F600 b", SquadVersion::v2_0);
  auto made = Scores(features).start(0, 0, 3).end(0, 2, 3).predict();
  auto answers = nlohmann::json::parse(predictions_json(made));
  EXPECT_EQ(answers.at("q"), made[0].text);
  auto best = nlohmann::json::parse(best_spans_json(made));
  EXPECT_EQ(best.at("q").at(0).at("text"), made[0].best[0].text);
  EXPECT_EQ(best.at("q").at(0).at("score"), made[0].best[0].score);
  EXPECT_EQ(nlohmann::json::parse(null_odds_json(made)).at("q"), made[0].null_odds);
}

TEST(SquadPredictions, AreTheSameOnAnyNumberOfThreads) {
  std::vector<SquadQuestion> questions;
  for (int i = 0; i < 300; ++i) questions.push_back({std::to_string(i), "who", {}});
  auto data = one_paragraph("a b c d e f g", questions);
  SquadFeatures features = make_squad_features(data, letter_pieces(), kSmall);
  Scores scores(features);
  for (size_t i = 0; i < features.windows.size(); ++i)
    scores.start(i, features.windows[i].first_token + static_cast<int64_t>(i * 7 % 3),
                 static_cast<float>(i % 11));
  set_thread_count(1);
  std::string one = best_spans_json(scores.predict());
  set_thread_count(4);
  EXPECT_EQ(best_spans_json(scores.predict()), one);
  set_thread_count(0);
}

TEST(SquadPredictions, RefusesOptionsThatMeanNothing) {
  SquadFeatures features = features_of("a");
  Scores scores(features);
  EXPECT_NE(error_of([&] { scores.predict({.best = 0}); }).find("n-best"), std::string::npos);
  EXPECT_NE(error_of([&] { scores.predict({.max_answer = 0}); }).find("max-answer"),
            std::string::npos);
}

}  // namespace
}  // namespace sigma1
