#include "sigma1/data/squad_predictions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"

namespace sigma1 {
namespace {

struct Candidate {
  double score;
  size_t window;  // of the question's
  int64_t start, end;

  // The best first; equal ones in a fixed order.
  bool operator<(const Candidate& other) const {
    return std::tuple(-score, window, start, end) <
           std::tuple(-other.score, other.window, other.start, other.end);
  }
};

// What is not a number is no candidate: it would break every order.
bool is_better(std::span<const float> scores, int64_t a, int64_t b) {
  float left = scores[static_cast<size_t>(a)], right = scores[static_cast<size_t>(b)];
  return left > right || (left == right && a < b);
}

std::vector<int64_t> best_positions(const SquadWindow& window, std::span<const float> scores,
                                    int64_t count) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < window.context_tokens; ++i) {
    int64_t position = window.context_at + i;
    if (!std::isnan(scores[static_cast<size_t>(position)])) positions.push_back(position);
  }
  auto kept = std::min(static_cast<size_t>(count), positions.size());
  std::partial_sort(positions.begin(), positions.begin() + static_cast<ptrdiff_t>(kept),
                    positions.end(), [&](int64_t a, int64_t b) { return is_better(scores, a, b); });
  positions.resize(kept);
  return positions;
}

class Question {
 public:
  Question(const SquadFeatures& features, const SquadAsked& asked,
           std::span<const SquadWindow> windows, std::span<const SpanScores> scores,
           const SquadPredictionOptions& options)
      : features_(features), asked_(asked), windows_(windows), scores_(scores), options_(options) {}

  SquadPrediction predict() {
    for (size_t i = 0; i < windows_.size(); ++i) collect(i);
    std::ranges::sort(candidates_, std::less<>());
    SquadPrediction made{.id = asked_.id, .text = "", .best = distinct_spans(), .null_odds = 0};
    bool may_be_none = features_.version == SquadVersion::v2_0;
    bool found = !made.best.empty();
    if (may_be_none) {
      double null = null_score();
      made.null_odds = found ? null - made.best.front().score : std::fabs(null);
      found = found && made.null_odds <= options_.null_threshold;
      if (found) made.text = made.best.front().text;
      SquadSpan none{"", null, 0};
      auto place = std::ranges::find_if(made.best, [&](const auto& s) { return s.score < null; });
      made.best.insert(place, none);
    } else if (found) {
      made.text = made.best.front().text;
    }
    set_probabilities(made.best);
    return made;
  }

 private:
  void collect(size_t index) {
    const SquadWindow& window = windows_[index];
    const SpanScores& scores = scores_[index];
    std::vector<int64_t> ends = best_positions(window, scores.end, options_.best);
    for (int64_t start : best_positions(window, scores.start, options_.best)) {
      int64_t token = window.first_token + start - window.context_at;
      const SquadWindow* begin = windows_.data();
      if (window_of_most_context(begin, begin + windows_.size(), token) != index) continue;
      for (int64_t end : ends) {
        if (end < start || end - start >= options_.max_answer) continue;
        double score = static_cast<double>(scores.start[static_cast<size_t>(start)]) +
                       static_cast<double>(scores.end[static_cast<size_t>(end)]);
        if (!std::isnan(score)) candidates_.push_back({score, index, start, end});
      }
    }
  }

  std::string_view text_of(const Candidate& candidate) const {
    const SquadWindow& window = windows_[candidate.window];
    int64_t shift = window.first_token - window.context_at;
    return features_.contexts[asked_.context].cut(static_cast<size_t>(candidate.start + shift),
                                                  static_cast<size_t>(candidate.end + shift));
  }

  std::vector<SquadSpan> distinct_spans() const {
    std::vector<SquadSpan> spans;
    std::set<std::string_view> seen;
    for (const Candidate& candidate : candidates_) {
      if (static_cast<int64_t>(spans.size()) == options_.best) break;
      std::string_view text = text_of(candidate);
      if (seen.insert(text).second) spans.push_back({std::string(text), candidate.score, 0});
    }
    return spans;
  }

  // The window that is least sure of no answer speaks for the question.
  double null_score() const {
    double least = std::numeric_limits<double>::infinity();
    for (const SpanScores& scores : scores_)
      least = std::min(least,
                       static_cast<double>(scores.start[0]) + static_cast<double>(scores.end[0]));
    return least;
  }

  static void set_probabilities(std::vector<SquadSpan>& spans) {
    double sum = 0;
    for (SquadSpan& span : spans) {
      span.probability = std::exp(span.score - spans.front().score);
      sum += span.probability;
    }
    for (SquadSpan& span : spans) span.probability /= sum;
  }

  const SquadFeatures& features_;
  const SquadAsked& asked_;
  std::span<const SquadWindow> windows_;
  std::span<const SpanScores> scores_;
  const SquadPredictionOptions& options_;
  std::vector<Candidate> candidates_;
};

// Windows of a question stand together.
std::vector<size_t> first_windows(const SquadFeatures& features) {
  std::vector<size_t> firsts(features.questions.size() + 1, features.windows.size());
  for (size_t i = features.windows.size(); i-- > 0;) firsts[features.windows[i].question] = i;
  return firsts;
}

void check(const SquadFeatures& features, std::span<const SpanScores> scores,
           const SquadPredictionOptions& options) {
  if (options.best < 1) throw Error("n-best: expected 1 or more, got {}", options.best);
  if (options.max_answer < 1) {
    throw Error("max-answer: expected 1 or more, got {}", options.max_answer);
  }
  if (scores.size() != features.windows.size())
    throw Bug("scores of {} windows for {}", scores.size(), features.windows.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    auto length = static_cast<size_t>(features.windows[i].length);
    if (scores[i].start.size() < length || scores[i].end.size() < length)
      throw Bug("scores of {} positions for a window of {}", scores[i].start.size(), length);
  }
}

template <class Value>
std::string by_question(std::span<const SquadPrediction> predictions, Value value) {
  std::string text = "{";
  for (const SquadPrediction& prediction : predictions) {
    text += text.size() > 1 ? ",\n " : "\n ";
    text += nlohmann::json(prediction.id).dump() + ": " + nlohmann::json(value(prediction)).dump();
  }
  return text + "\n}\n";
}

}  // namespace

std::vector<SquadPrediction> predict_squad(const SquadFeatures& features,
                                           std::span<const SpanScores> scores,
                                           const SquadPredictionOptions& options) {
  check(features, scores, options);
  std::vector<size_t> firsts = first_windows(features);
  std::vector<SquadPrediction> predictions(features.questions.size());
  std::span<const SquadWindow> windows(features.windows);
  parallel_for(predictions.size(), 64, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      size_t first = firsts[i], count = firsts[i + 1] - first;
      predictions[i] = Question(features, features.questions[i], windows.subspan(first, count),
                                scores.subspan(first, count), options)
                           .predict();
    }
  });
  return predictions;
}

std::string predictions_json(std::span<const SquadPrediction> predictions) {
  return by_question(predictions, [](const SquadPrediction& each) { return each.text; });
}

std::string best_spans_json(std::span<const SquadPrediction> predictions) {
  return by_question(predictions, [](const SquadPrediction& each) {
    auto list = nlohmann::ordered_json::array();
    for (const SquadSpan& span : each.best)
      list.push_back(
          {{"text", span.text}, {"probability", span.probability}, {"score", span.score}});
    return list;
  });
}

std::string null_odds_json(std::span<const SquadPrediction> predictions) {
  return by_question(predictions, [](const SquadPrediction& each) { return each.null_odds; });
}

}  // namespace sigma1
