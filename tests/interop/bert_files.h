// BERTs as transformers has them, beside inputs and the scores that the reference computes.
#pragma once

#include <string>

namespace sigma1 {

// FOLDER/NAME with config.json and model.safetensors, and example.safetensors.
void write_bert_examples(const std::string& folder);

}  // namespace sigma1
