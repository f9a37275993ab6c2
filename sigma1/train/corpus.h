// The texts of a run as token ids: what a model is trained and judged on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sigma1/base/rng.h"
#include "sigma1/data/vocabulary.h"

namespace sigma1 {

class BatchSource;

struct Corpus {
  Vocabulary vocabulary;
  std::vector<uint16_t> train, valid;
  // What batches come from instead, where they are no windows of these texts.
  std::shared_ptr<const BatchSource> source = nullptr;
};

// What a token of a text is.
struct Tokens {
  std::string kind = "auto";  // characters, bytes, ids; auto: ids of a *.bin file, else characters
  int64_t vocabulary = 0;     // of ids; 0: GPT-2's

  // `kind` with auto resolved for a text. Throws Error for an unknown one.
  Vocabulary::Kind of(const std::string& path) const;
};
inline constexpr int64_t kGpt2Vocabulary = 50257;

// The vocabulary is the set of both texts' characters, or what `tokens` says. Without a validation
// text the last tenth of the training text is kept for it. Ids of characters are cached in
// `cache_folder`, unless that is empty.
Corpus load_corpus(const std::string& train_path, const std::string& valid_path,
                   const std::string& cache_folder, const Tokens& tokens = {});

// What stands in for a text where there is none: independent tokens, each as frequent as any other.
std::vector<uint16_t> random_tokens(int64_t vocabulary, size_t count, const RandomStream& random);
Corpus random_corpus(int64_t vocabulary, size_t count, uint64_t seed);

// One text, or file of ids, by the vocabulary of a checkpoint. Throws Error for what it lacks.
std::vector<uint16_t> load_tokens(const std::string& path, const Vocabulary& vocabulary);

}  // namespace sigma1
