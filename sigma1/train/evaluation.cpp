#include "sigma1/train/evaluation.h"

#include <fmt/format.h>

namespace sigma1 {

std::string to_string(const Evaluation& evaluation) {
  if (!evaluation.parts.empty()) {
    std::string text = fmt::format("loss {:.4f}", evaluation.loss);
    for (const auto& [name, value] : evaluation.parts)
      text += fmt::format(", {} {:.4f}", name, value);
    return fmt::format("{} on {} {}", text, evaluation.characters, evaluation.counted);
  }
  if (evaluation.kind == Vocabulary::Kind::ids) {
    return fmt::format("{:.4f} nats ({:.4f} bits) per token on {} tokens", evaluation.loss,
                       evaluation.bits_per_character, evaluation.characters);
  }
  bool bytes = evaluation.kind == Vocabulary::Kind::bytes;
  return fmt::format("{:.4f} bits per {} on {} {}", evaluation.bits_per_character,
                     bytes ? "byte" : "character", evaluation.characters,
                     bytes ? "bytes" : "characters");
}

}  // namespace sigma1
