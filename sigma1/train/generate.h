// Text sampled from a language model, token by token.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sigma1/train/session.h"

namespace sigma1 {

struct GenerateOptions {
  std::string prompt = {};
  int64_t length = 200;
  double temperature = 1;  // 0: always the likeliest
  uint64_t seed = 0;
};

// Hands the prompt, then each new character, as UTF-8, to `show`; bytes as they are, ids as
// numbers. What the model sees is the end of the text that fits its window. Throws Error, before
// anything is shown, for a prompt with a character the model does not know.
void generate(const Session& session, const GenerateOptions& options,
              const std::function<void(std::string_view)>& show);

}  // namespace sigma1
