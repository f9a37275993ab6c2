// BERT (Devlin et al., 2019): a post-norm encoder, with the heads it is pretrained by or the one
// that answers questions. Parameters are called so that a published checkpoint's can be mapped to
// them one by one, and the two models share those of the encoder.
#pragma once

#include "sigma1/models/registry.h"

namespace sigma1 {

ModelConfig bert_defaults();

// Both read tokens and segments (which of two texts) [batch, time], and padding, which is 1 for
// what is there.

// Reads also masked_positions, masked_labels and masked_weights [batch, predictions], the last 0
// where fewer tokens are masked and 1 on the mean, and next_sentence [batch], 1 where the second
// text does not follow. Loss: the masked tokens' mean plus that of the sentences.
void build_bert(Graph& graph, const ModelConfig& config);

// Reads also start and end [batch]. Loss: the mean of the two, each over all positions.
void build_bert_squad(Graph& graph, const ModelConfig& config);

}  // namespace sigma1
