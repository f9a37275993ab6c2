// From text to pairs of texts for BERT's pretraining, as Devlin et al. (2019) make them: sentences
// of a document in sequence until a pair is full, the second half replaced by another document's
// every other time, a tenth of the pairs short.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/data/bert_instances.h"
#include "sigma1/data/word_piece.h"

namespace sigma1 {

// Ids of each sentence.
using BertDocument = std::vector<std::vector<uint16_t>>;

// Throws Error for a vocabulary that does not fit 16 bits or lacks a token of these.
BertSpecialTokens bert_special_tokens(const WordPiece& pieces);

using PreparationProgress = std::function<void(std::string_view what, int64_t done, int64_t total)>;

// Documents and sentences as data/sentences.h has them; what gives no token is left out.
std::vector<BertDocument> bert_documents(std::string_view text, const WordPiece& pieces,
                                         const PreparationProgress& progress = {});

struct BertPreparation {
  int64_t time = 128;
  int64_t passes = 1;  // over the documents, each with pairs of its own
  uint64_t seed = 0;
  double short_share = 0.1, random_share = 0.5;
};

// Records for write_bert_instances. A pure function of its arguments. Throws Error for fewer than
// two documents.
std::vector<uint16_t> bert_records(const std::vector<BertDocument>& documents,
                                   const BertSpecialTokens& special,
                                   const BertPreparation& preparation,
                                   const PreparationProgress& progress = {});

}  // namespace sigma1
