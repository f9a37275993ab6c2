// Batches of noise for models that read more than windows of a text: a step takes as long on them
// as on texts of full length.
#pragma once

#include "sigma1/train/corpus.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

// What a model trains on where there is nothing to learn: independent tokens, or what bert and
// bert_squad read, with nothing padded and every prediction counted.
Corpus random_corpus(const TrainConfig& config, int64_t vocabulary);

}  // namespace sigma1
