// How well answers fit SQuAD's, by the official definitions: the numbers of evaluate-v1.1.py and
// evaluate-v2.0.py to the last digit, because papers are compared by them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sigma1/data/squad.h"

namespace sigma1 {

// What an answer is compared by: its words in lower case, without ASCII punctuation and articles.
std::vector<std::string> answer_words(std::string_view answer);

// Twice the common words over all words, as a harmonic mean. Where either has no words, 1 if both
// have none, by v2.0; by v1.1 it is 0 then.
double answer_f1(const std::vector<std::string>& gold, const std::vector<std::string>& predicted,
                 SquadVersion version);

struct SquadMetrics {
  std::vector<std::pair<std::string, SquadNumber>> values;  // in the scripts' order
  std::vector<std::string> missing;                         // questions without a prediction

  // As Python's json.dumps(…, indent=2) writes them.
  std::string json() const;
};

// Throws Error for a question without answers, which v1.1 does not have: it cannot be scored.
void expect_answers_of_v1(const SquadData& data);

// exact_match and f1 in percent; a missing prediction counts as wrong. Throws Error as
// expect_answers_of_v1 does.
SquadMetrics squad_metrics_v1(const SquadData& data, const ByQuestion<std::string>& predictions);

// How sure a model is that a question has no answer. Above the threshold it has given none.
struct NoAnswerProbabilities {
  ByQuestion<SquadNumber> by_question;
  double threshold = 1;
};

// exact, f1 and total, of all questions, of those with an answer (HasAns_…) and of those without
// (NoAns_…); with probabilities also the best score at any threshold, and that threshold. Missing
// predictions are left out. Throws Error when none is left or a probability is missing.
SquadMetrics squad_metrics_v2(const SquadData& data, const ByQuestion<std::string>& predictions,
                              const NoAnswerProbabilities* no_answer = nullptr);

}  // namespace sigma1
