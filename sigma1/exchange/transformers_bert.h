// BERT as Hugging Face's library `transformers` has it: a folder of model.safetensors, config.json
// and vocab.txt, for BertForPreTraining or BertForQuestionAnswering.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sigma1/train/stored_model.h"

namespace sigma1 {

// Model bert or bert_squad; throws Error for another, or when its factors cannot be folded. Only
// known tokens go out. `vocabulary` is the content of a vocab.txt; none is written when empty.
void write_transformers_bert(const std::filesystem::path& folder, const StoredModel& model,
                             const std::string& vocabulary = {}, bool lower_case = true);

struct ReadBert {
  StoredModel model;
  std::vector<std::string> fresh;  // parameters that the file lacks, started at random
};

// The model that `config` asks for (bert or bert_squad, its method, precision and alignment) with
// sizes and numbers of a folder, or of a file beside its config.json. Padding of the vocabulary is
// never likely. A head that the file lacks is fresh; throws Error when more is missing.
ReadBert read_transformers_bert(const std::filesystem::path& source, const TrainConfig& config,
                                const Alignment& alignment = {});

}  // namespace sigma1
