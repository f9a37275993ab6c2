// From a model's scores of first and last tokens to answers in words: the best spans of all windows
// of a question, cut from its context. By the rules of BERT's authors, so that scores can be
// compared with published ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sigma1/data/squad_features.h"

namespace sigma1 {

// Of one window: a score for each position, at least as many as the window is long.
struct SpanScores {
  std::span<const float> start, end;
};

struct SquadPredictionOptions {
  int64_t best = 20;          // spans kept of a question, and positions looked at in a window
  int64_t max_answer = 30;    // in tokens
  double null_threshold = 0;  // v2.0: no answer where the null score is more than this above
};

struct SquadSpan {
  std::string text;    // empty: no answer
  double score;        // of start plus end
  double probability;  // among those kept
};

struct SquadPrediction {
  std::string id;
  std::string text;
  std::vector<SquadSpan> best;  // the best first, no text twice
  double null_odds;             // v2.0: the null score less the best span's
};

// `scores` has one entry for each window. Equal scores are ordered by window, start and end.
// Throws Error when the options are none, Bug when scores are missing.
std::vector<SquadPrediction> predict_squad(const SquadFeatures& features,
                                           std::span<const SpanScores> scores,
                                           const SquadPredictionOptions& options = {});

// As the official scripts read them: {id: answer}; {id: [{text, probability, score}, …]}; {id:
// number}. A line for each question.
std::string predictions_json(std::span<const SquadPrediction> predictions);
std::string best_spans_json(std::span<const SquadPrediction> predictions);
std::string null_odds_json(std::span<const SquadPrediction> predictions);

}  // namespace sigma1
