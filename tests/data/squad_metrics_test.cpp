// Cases small enough to be done by hand; tests/interop/squad_check.py has many more.
#include "sigma1/data/squad_metrics.h"

#include <gtest/gtest.h>

#include <map>

#include "sigma1/base/error.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

using Words = std::vector<std::string>;
using Golds = std::vector<std::string>;

SquadData data_of(const std::vector<std::pair<std::string, Golds>>& questions) {
  SquadData data{.path = "data", .version = SquadVersion::v2_0, .articles = {{"T", {{}}}}};
  for (const auto& [id, golds] : questions) {
    SquadQuestion question{id, "?", {}};
    for (const std::string& gold : golds) question.answers.push_back({gold, 0});
    data.articles[0].paragraphs[0].questions.push_back(question);
  }
  return data;
}

ByQuestion<std::string> predictions_of(
    const std::vector<std::pair<std::string, std::string>>& list) {
  ByQuestion<std::string> predictions;
  for (const auto& [id, text] : list) predictions.set(id, text);
  return predictions;
}

std::map<std::string, double> values_of(const SquadMetrics& metrics) {
  std::map<std::string, double> values;
  for (const auto& [name, number] : metrics.values) values[name] = number.value;
  return values;
}

TEST(SquadMetrics, NormalisesAnswers) {
  EXPECT_EQ(answer_words("The Cat, an a-b."), (Words{"cat", "ab"}));
  EXPECT_EQ(answer_words("  tab\tand\u00a0space\u2003"), (Words{"tab", "and", "space"}));
  EXPECT_EQ(answer_words("a the AN!"), Words{});
  EXPECT_EQ(answer_words(""), Words{});
}

TEST(SquadMetrics, TakesArticlesByWordBoundaries) {
  EXPECT_EQ(answer_words("theatre athe a1 the2 an_the"),
            (Words{"theatre", "athe", "a1", "the2", "anthe"}));
  EXPECT_EQ(answer_words("éa aé"), (Words{"éa", "aé"}));        // é is of a word
  EXPECT_EQ(answer_words("the–end a€"), (Words{"–end", "€"}));  // the dash and € are not
  EXPECT_EQ(answer_words("the's"), (Words{"thes"}));            // punctuation goes first
}

TEST(SquadMetrics, LowersAndSplitsAsPythonDoes) {
  EXPECT_EQ(answer_words("ÉCOLE İ ΑΣ"), (Words{"école", "i\u0307", "ας"}));
  EXPECT_EQ(answer_words("“Quote” 。"), (Words{"“quote”", "。"}));
  EXPECT_EQ(answer_words("x\x1cy\u200bz"), (Words{"x", "y\u200bz"}));
}

TEST(SquadMetrics, CountsCommonWordsWithTheirNumber) {
  auto f1 = [](const Words& a, const Words& b) { return answer_f1(a, b, SquadVersion::v2_0); };
  EXPECT_EQ(f1({"x", "x", "y"}, {"x", "y", "y"}), 2 * (2.0 / 3) * (2.0 / 3) / (2.0 / 3 + 2.0 / 3));
  EXPECT_EQ(f1({"x", "y"}, {"x"}), 2 * 1.0 * 0.5 / 1.5);
  EXPECT_EQ(f1({"x"}, {"y"}), 0);
  EXPECT_EQ(f1({}, {}), 1);
  EXPECT_EQ(f1({}, {"x"}), 0);
  EXPECT_EQ(answer_f1({}, {}, SquadVersion::v1_1), 0);
}

TEST(SquadMetrics, GivesTheNumbersOfVersionOne) {
  SquadData data =
      data_of({{"a", {"the cat", "black cat"}}, {"b", {"dog"}}, {"c", {"x y"}}, {"d", {"z"}}});
  SquadMetrics metrics =
      squad_metrics_v1(data, predictions_of({{"a", "Black cat!"}, {"b", "cat"}, {"c", "x"}}));
  EXPECT_EQ(metrics.missing, Words{"d"});
  EXPECT_EQ(values_of(metrics).at("exact_match"), 25);
  EXPECT_EQ(values_of(metrics).at("f1"), 100.0 * (1 + 2 * 1 * 0.5 / 1.5) / 4);
  EXPECT_EQ(metrics.json(), "{\n  \"exact_match\": 25.0,\n  \"f1\": 41.666666666666664\n}");
}

TEST(SquadMetrics, VersionOneNeedsAnswers) {
  SquadData data = data_of({{"a", {}}});
  EXPECT_NE(error_of([&] {
              squad_metrics_v1(data, predictions_of({{"a", ""}}));
            }).find("'a'"),
            std::string::npos);
}

TEST(SquadMetrics, GivesTheNumbersOfVersionTwo) {
  // The second has only an answer that vanishes: it counts as answerable, and no answer is right.
  SquadData data = data_of({{"a", {"cat"}}, {"b", {"the"}}, {"c", {}}, {"d", {}}, {"e", {"x"}}});
  SquadMetrics metrics = squad_metrics_v2(
      data, predictions_of({{"a", "a cat"}, {"b", ""}, {"c", ""}, {"d", "dog"}, {"other", "x"}}));
  EXPECT_EQ(metrics.missing, Words{"e"});
  EXPECT_EQ(metrics.json(),
            "{\n  \"exact\": 75.0,\n  \"f1\": 75.0,\n  \"total\": 4,\n  \"HasAns_exact\": 100.0,\n"
            "  \"HasAns_f1\": 100.0,\n  \"HasAns_total\": 2,\n  \"NoAns_exact\": 50.0,\n"
            "  \"NoAns_f1\": 50.0,\n  \"NoAns_total\": 2\n}");
}

TEST(SquadMetrics, CountsAQuestionThatStandsTwiceOnce) {
  SquadData data = data_of({{"a", {"cat"}}, {"b", {"x"}}, {"a", {"dog"}}});
  auto values = values_of(squad_metrics_v2(data, predictions_of({{"a", "dog"}, {"b", "y"}})));
  EXPECT_EQ(values.at("total"), 2);
  EXPECT_EQ(values.at("exact"), 50);
}

TEST(SquadMetrics, LeavesOutKindsThatAreNotThere) {
  SquadMetrics metrics = squad_metrics_v2(data_of({{"a", {"x"}}}), predictions_of({{"a", "x"}}));
  EXPECT_EQ(values_of(metrics).count("NoAns_total"), 0u);
  EXPECT_EQ(values_of(metrics).at("HasAns_total"), 1);
}

NoAnswerProbabilities probabilities_of(const std::vector<std::pair<std::string, SquadNumber>>& list,
                                       double threshold = 1) {
  NoAnswerProbabilities probabilities{{}, threshold};
  for (const auto& [id, number] : list) probabilities.by_question.set(id, number);
  return probabilities;
}

TEST(SquadMetrics, FindsTheBestThreshold) {
  SquadData data = data_of({{"a", {"cat"}}, {"b", {"dog"}}, {"c", {}}, {"d", {}}});
  auto predictions = predictions_of({{"a", "cat"}, {"b", "cow"}, {"c", "x"}, {"d", ""}});
  auto probabilities = probabilities_of({{"c", {0.75, false}},
                                         {"a", {0.25, false}},
                                         {"b", {0.5, false}},
                                         {"d", {1, true}},
                                         {"z", {0, true}}});
  // Two unanswerable, then a is right (3), b wrong (3), c wrongly answered (2), d stays (2).
  auto values = values_of(squad_metrics_v2(data, predictions, &probabilities));
  EXPECT_EQ(values.at("exact"), 50);
  EXPECT_EQ(values.at("best_exact"), 75);
  EXPECT_EQ(values.at("best_exact_thresh"), 0.25);
  EXPECT_EQ(values.at("best_f1"), 75);
  probabilities.threshold = 0.3;
  EXPECT_EQ(values_of(squad_metrics_v2(data, predictions, &probabilities)).at("exact"), 75);
}

TEST(SquadMetrics, TakesProbabilitiesOfEqualSizeInTheirOrder) {
  SquadData data = data_of({{"a", {"cat"}}, {"c", {}}});
  auto predictions = predictions_of({{"a", "cat"}, {"c", "x"}});
  auto right_first = probabilities_of({{"a", {0.5, false}}, {"c", {0.5, false}}});
  EXPECT_EQ(values_of(squad_metrics_v2(data, predictions, &right_first)).at("best_exact"), 100);
  auto wrong_first = probabilities_of({{"c", {0.5, false}}, {"a", {0.5, false}}});
  EXPECT_EQ(values_of(squad_metrics_v2(data, predictions, &wrong_first)).at("best_exact"), 50);
}

TEST(SquadMetrics, KeepsAWholeThresholdWhole) {
  auto probabilities = probabilities_of({{"a", {1, true}}});
  SquadMetrics metrics =
      squad_metrics_v2(data_of({{"a", {"x"}}}), predictions_of({{"a", "x"}}), &probabilities);
  EXPECT_NE(metrics.json().find("\"best_f1_thresh\": 1\n"), std::string::npos) << metrics.json();
  auto none = probabilities_of({{"a", {1, true}}});
  metrics = squad_metrics_v2(data_of({{"a", {"x"}}}), predictions_of({{"a", "y"}}), &none);
  EXPECT_NE(metrics.json().find("\"best_f1_thresh\": 0.0\n"), std::string::npos) << metrics.json();
}

TEST(SquadMetrics, RefusesWhatCannotBeScored) {
  SquadData data = data_of({{"a", {"x"}}});
  EXPECT_THROW(squad_metrics_v2(data, predictions_of({{"b", "x"}})), Error);
  EXPECT_THROW(squad_metrics_v1(data_of({}), predictions_of({})), Error);
  auto lacking = probabilities_of({{"b", {0, true}}});
  EXPECT_THROW(squad_metrics_v2(data, predictions_of({{"a", "x"}}), &lacking), Error);
}

}  // namespace
}  // namespace sigma1
