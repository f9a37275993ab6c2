#include "sigma1/train/corpus.h"

#include "sigma1/base/error.h"
#include "sigma1/data/text_file.h"
#include "sigma1/data/token_cache.h"

namespace sigma1 {
namespace {

// Where the last tenth begins: at the first character from there on.
size_t split_point(const std::string& text) {
  size_t at = text.size() - text.size() / 10;
  auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  while (at < text.size() && continues(text[at])) ++at;
  return at;
}

}  // namespace

Corpus load_corpus(const std::string& train_path, const std::string& valid_path,
                   const std::string& cache_folder) {
  if (train_path.empty()) throw Error("train: expected a text file or folder to train on");
  std::string train = read_text(train_path), valid;
  if (valid_path.empty()) {
    size_t at = split_point(train);
    valid = train.substr(at);
    train.resize(at);
  } else {
    valid = read_text(valid_path);
  }
  Corpus corpus{Vocabulary::of_texts({train, valid}), {}, {}};
  auto tokens = [&](const std::string& text) {
    return cache_folder.empty() ? corpus.vocabulary.encode(text)
                                : cached_tokens(cache_folder, text, corpus.vocabulary);
  };
  corpus.train = tokens(train);
  corpus.valid = tokens(valid);
  return corpus;
}

std::vector<uint16_t> random_tokens(int64_t vocabulary, size_t count, const RandomStream& random) {
  std::vector<uint16_t> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<uint16_t>(random.uniform(i) * static_cast<double>(vocabulary));
  }
  return tokens;
}

Corpus random_corpus(int64_t vocabulary, size_t count, uint64_t seed) {
  constexpr char32_t kFirst = 0x20000;  // from here on all 16 bits of ids are characters
  std::string lines;
  for (int64_t i = 0; i < vocabulary; ++i) {
    lines += fmt::format("U+{:04X}\n", static_cast<uint32_t>(kFirst) + static_cast<uint32_t>(i));
  }
  Corpus corpus{Vocabulary::parse(lines), {}, {}};
  corpus.train = random_tokens(vocabulary, count, RandomStream(seed, "random corpus"));
  corpus.valid = random_tokens(vocabulary, count / 10, RandomStream(seed, "random corpus/valid"));
  return corpus;
}

std::vector<uint16_t> load_tokens(const std::string& path, const Vocabulary& vocabulary) {
  std::string text = read_text(path);
  try {
    return vocabulary.encode(text);
  } catch (const Error& error) {
    throw Error("{}: {}; the model was trained on another alphabet", path, error.what());
  }
}

}  // namespace sigma1
