// Prepared pairs of texts as what model `bert` trains and is judged on.
#pragma once

#include "sigma1/train/corpus.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

// Of files by `sigma1 bert prepare`. Without one for validation, the last tenth of the pairs.
// Throws Error for files that do not fit each other or the config.
Corpus load_bert_corpus(const TrainConfig& config);

// What a config's model reads: pairs, questions, or windows of a text whose ids are cached in the
// folder unless that is empty.
Corpus load_corpus(const TrainConfig& config, const std::string& cache_folder);

}  // namespace sigma1
