// BERTs as transformers has them, beside inputs and the scores that the reference computes; and
// scores of BERTs that came from there.
#pragma once

#include <string>

namespace sigma1 {

// FOLDER/NAME with config.json and model.safetensors, and example.safetensors.
void write_bert_examples(const std::string& folder);

// Of a folder with a checkpoint of ours and inputs.safetensors: example.safetensors beside them.
void write_bert_scores(const std::string& folder);

}  // namespace sigma1
