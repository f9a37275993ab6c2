// SQuAD as what model `bert_squad` trains and is judged on.
#pragma once

#include <memory>
#include <vector>

#include "sigma1/data/squad_predictions.h"
#include "sigma1/train/batch_source.h"
#include "sigma1/train/corpus.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

// The vocabulary that a config names. Throws Error when it names none.
WordPiece squad_pieces(const TrainConfig& config);
SquadFeatureOptions squad_options(const TrainConfig& config);

// What a model makes of all windows: an answer to each question. The loss is a mean over windows.
struct SquadAnswers {
  std::vector<SquadPrediction> predictions;
  double loss = 0;
};
SquadAnswers answer_squad(const SquadFeatures& features, const TrainConfig& config,
                          const BatchSource::Run& run, const BatchSource::Progress& progress,
                          const SquadPredictionOptions& options = {});

// Of data in SQuAD's JSON. Without some for validation, the last tenth of the articles. Questions
// whose answer does not stand where it should are not trained on. Throws Error for data that do
// not fit the config.
Corpus load_squad_corpus(const TrainConfig& config);

// Windows that a run trains on, and questions it leaves out.
struct SquadCounts {
  int64_t windows = 0, questions = 0, left_out = 0;
};
SquadCounts count_squad(const Corpus& corpus);

}  // namespace sigma1
