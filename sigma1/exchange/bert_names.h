// Which parameter of ours is which tensor of a BERT of Hugging Face's `transformers`. Private to
// this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sigma1 {

struct BertName {
  std::string ours, theirs;
  bool turned = false;          // theirs is [out, in]
  bool by_word = false;         // its first axis, or only one, is the vocabulary
  int64_t part = 0, parts = 1;  // of ours, along the last axis: queries, keys and values are one
};

// Of model bert or bert_squad.
std::vector<BertName> bert_names(std::string_view model, int64_t depth);

}  // namespace sigma1
