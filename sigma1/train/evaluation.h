// How well a model predicts a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sigma1/data/vocabulary.h"

namespace sigma1 {

struct Evaluation {
  double loss = 0, bits_per_character = 0;
  int64_t characters = 0;
  Vocabulary::Kind kind = Vocabulary::Kind::characters;  // of what counts as a character here
  std::string_view counted = "tokens";  // what `characters` are, where there are parts
  std::vector<std::pair<std::string, double>> parts = {};  // of a loss that is made of several
};
// For people: bits per character, or nats and bits per token, and on how many.
std::string to_string(const Evaluation& evaluation);

}  // namespace sigma1
