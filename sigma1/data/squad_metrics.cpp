#include "sigma1/data/squad_metrics.h"

#include <algorithm>
#include <iterator>

#include "sigma1/base/error.h"
#include "sigma1/data/unicode.h"
#include "sigma1/data/utf8.h"

namespace sigma1 {
namespace {

bool is_word_character(char32_t c) { return facts_of(c).is(kWordCharacter); }
bool is_space(char32_t c) { return facts_of(c).is(kPythonSpace); }
bool is_ascii_punctuation(char32_t c) { return c < 128 && facts_of(c).is(kPunctuation); }

// What Python's re.sub(r"\b(a|an|the)\b", " ", text) does: words are all of \w in a row.
void blank_articles(std::vector<char32_t>& text) {
  for (auto at = text.begin();
       (at = std::find_if(at, text.end(), is_word_character)) != text.end();) {
    auto end = std::find_if_not(at, text.end(), is_word_character);
    std::u32string_view word(&*at, static_cast<size_t>(end - at));
    if (word == U"a" || word == U"an" || word == U"the") std::fill(at, end, U' ');
    at = end;
  }
}

// Of one question.
struct Score {
  double exact = 0, f1 = 0;
  bool has_answer = false, predicts_none = false;
};

Score best_score(const std::vector<std::vector<std::string>>& golds, const std::string& prediction,
                 SquadVersion version) {
  std::vector<std::string> predicted = answer_words(prediction);
  Score best;
  for (const auto& gold : golds) {
    best.exact = std::max(best.exact, gold == predicted ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, answer_f1(gold, predicted, version));
  }
  return best;
}

// Sums run in the order of the questions, as the scripts' do.
struct Sums {
  double exact = 0, f1 = 0;
  size_t total = 0;

  void add(double e, double f) {
    exact += e;
    f1 += f;
    ++total;
  }
  static double percent(double sum, size_t of) { return 100.0 * sum / static_cast<double>(of); }

  void append_to(SquadMetrics& metrics, const std::string& prefix) const {
    metrics.values.push_back({prefix + "exact", {percent(exact, total), false}});
    metrics.values.push_back({prefix + "f1", {percent(f1, total), false}});
    metrics.values.push_back({prefix + "total", {static_cast<double>(total), true}});
  }
};

struct RawScores {
  ByQuestion<Score> by_question;
  size_t unanswerable = 0;  // of all questions, also of those without a prediction
};

// Answers without a word left do not count, and where none is left no answer is the right one.
std::vector<std::vector<std::string>> gold_words(const SquadQuestion& question) {
  std::vector<std::vector<std::string>> golds;
  for (const SquadAnswer& answer : question.answers) {
    std::vector<std::string> words = answer_words(answer.text);
    if (!words.empty()) golds.push_back(std::move(words));
  }
  if (golds.empty()) golds.emplace_back();
  return golds;
}

RawScores raw_scores(const SquadData& data, const ByQuestion<std::string>& predictions,
                     std::vector<std::string>& missing) {
  RawScores raw;
  ByQuestion<bool> has_answer;
  data.for_each_question([&](const SquadArticle&, const SquadQuestion& question) {
    has_answer.set(question.id, !question.answers.empty());
    const std::string* prediction = predictions.find(question.id);
    if (!prediction) return missing.push_back(question.id);
    Score score = best_score(gold_words(question), *prediction, SquadVersion::v2_0);
    score.has_answer = !question.answers.empty();
    score.predicts_none = prediction->empty();
    raw.by_question.set(question.id, score);
  });
  for (const auto& [id, has] : has_answer) raw.unanswerable += has ? 0 : 1;
  if (raw.by_question.size() == 0)
    throw Error("{}: expected predictions for some of the {} questions of {}, got none",
                predictions.path(), has_answer.size(), data.path);
  return raw;
}

double probability_of(const NoAnswerProbabilities& no_answer, const std::string& id) {
  const SquadNumber* number = no_answer.by_question.find(id);
  if (!number)
    throw Error("{}: expected a probability that question '{}' has no answer, got none",
                no_answer.by_question.path(), id);
  return number->value;
}

struct Best {
  double score;
  SquadNumber threshold;
};

// Questions become answered one by one, the surest first; the first threshold of the best sum.
Best best_threshold(const RawScores& raw, const ByQuestion<SquadNumber>& probabilities,
                    double Score::*measure) {
  std::vector<std::pair<std::string, SquadNumber>> ordered(probabilities.begin(),
                                                           probabilities.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.second.value < b.second.value; });
  auto score = static_cast<double>(raw.unanswerable);
  Best best{score, {0, false}};
  for (const auto& [id, probability] : ordered) {
    const Score* question = raw.by_question.find(id);
    if (!question) continue;
    double wrongly_answered = question->predicts_none ? 0 : -1;
    score += question->has_answer ? question->*measure : wrongly_answered;
    if (score > best.score) best = {score, probability};
  }
  return {Sums::percent(best.score, raw.by_question.size()), best.threshold};
}

// With the digits of Python's repr, which has a point or an exponent in every float.
std::string python_number(SquadNumber number) {
  if (number.whole) return fmt::format("{:.0f}", number.value);
  std::string text = fmt::format("{}", number.value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

std::vector<std::string> answer_words(std::string_view answer) {
  std::vector<char32_t> text = python_lower(decode_utf8(answer));
  std::erase_if(text, is_ascii_punctuation);
  blank_articles(text);
  std::vector<std::string> words;
  bool inside = false;
  for (char32_t c : text) {
    bool space = is_space(c);
    if (!space && !inside) words.emplace_back();
    if (!space) append_utf8(words.back(), c);
    inside = !space;
  }
  return words;
}

double answer_f1(const std::vector<std::string>& gold, const std::vector<std::string>& predicted,
                 SquadVersion version) {
  if (version == SquadVersion::v2_0 && (gold.empty() || predicted.empty()))
    return gold.empty() && predicted.empty() ? 1 : 0;
  std::vector<std::string> a = gold, b = predicted, common;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  if (common.empty()) return 0;
  double same = static_cast<double>(common.size());
  double precision = same / static_cast<double>(predicted.size());
  double recall = same / static_cast<double>(gold.size());
  return (2 * precision * recall) / (precision + recall);
}

std::string SquadMetrics::json() const {
  std::string text = "{";
  for (const auto& [name, number] : values)
    text +=
        fmt::format("{}\n  \"{}\": {}", text.size() > 1 ? "," : "", name, python_number(number));
  return text + "\n}";
}

void expect_answers_of_v1(const SquadData& data) {
  data.for_each_question([&](const SquadArticle& article, const SquadQuestion& question) {
    if (question.answers.empty())
      throw Error(
          "{}, article '{}', question '{}': expected an answer, as version 1.1 has, got none",
          data.path, article.title, question.id);
  });
}

SquadMetrics squad_metrics_v1(const SquadData& data, const ByQuestion<std::string>& predictions) {
  expect_answers_of_v1(data);
  SquadMetrics metrics;
  Sums sums;
  data.for_each_question([&](const SquadArticle&, const SquadQuestion& question) {
    const std::string* prediction = predictions.find(question.id);
    if (!prediction) {
      metrics.missing.push_back(question.id);
      return sums.add(0, 0);
    }
    std::vector<std::vector<std::string>> golds;
    for (const SquadAnswer& answer : question.answers) golds.push_back(answer_words(answer.text));
    Score score = best_score(golds, *prediction, SquadVersion::v1_1);
    sums.add(score.exact, score.f1);
  });
  if (sums.total == 0) throw Error("{}: expected questions, got none", data.path);
  metrics.values = {{"exact_match", {Sums::percent(sums.exact, sums.total), false}},
                    {"f1", {Sums::percent(sums.f1, sums.total), false}}};
  return metrics;
}

SquadMetrics squad_metrics_v2(const SquadData& data, const ByQuestion<std::string>& predictions,
                              const NoAnswerProbabilities* no_answer) {
  SquadMetrics metrics;
  RawScores raw = raw_scores(data, predictions, metrics.missing);
  Sums all, with_answer, without;
  for (const auto& [id, score] : raw.by_question) {
    double exact = score.exact, f1 = score.f1;
    if (no_answer && probability_of(*no_answer, id) > no_answer->threshold)
      exact = f1 = score.has_answer ? 0 : 1;
    all.add(exact, f1);
    (score.has_answer ? with_answer : without).add(exact, f1);
  }
  all.append_to(metrics, "");
  if (with_answer.total > 0) with_answer.append_to(metrics, "HasAns_");
  if (without.total > 0) without.append_to(metrics, "NoAns_");
  if (!no_answer) return metrics;
  Best exact = best_threshold(raw, no_answer->by_question, &Score::exact);
  Best f1 = best_threshold(raw, no_answer->by_question, &Score::f1);
  metrics.values.push_back({"best_exact", {exact.score, false}});
  metrics.values.push_back({"best_exact_thresh", exact.threshold});
  metrics.values.push_back({"best_f1", {f1.score, false}});
  metrics.values.push_back({"best_f1_thresh", f1.threshold});
  return metrics;
}

}  // namespace sigma1
