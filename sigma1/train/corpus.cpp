#include "sigma1/train/corpus.h"

#include "sigma1/base/error.h"
#include "sigma1/data/text_file.h"
#include "sigma1/data/token_cache.h"
#include "sigma1/data/token_file.h"

namespace sigma1 {
namespace {

// Where the last tenth begins: at the first character from there on.
size_t split_point(const std::string& text) {
  size_t at = text.size() - text.size() / 10;
  auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  while (at < text.size() && continues(text[at])) ++at;
  return at;
}

// By characters, which both texts have to be known for.
Corpus load_characters(const std::string& train_path, const std::string& valid_path,
                       const std::string& cache_folder) {
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

}  // namespace

Vocabulary::Kind Tokens::of(const std::string& path) const {
  using Kind = Vocabulary::Kind;
  if (kind == "auto") return path.ends_with(".bin") ? Kind::ids : Kind::characters;
  if (kind == "characters") return Kind::characters;
  if (kind == "bytes") return Kind::bytes;
  if (kind == "ids") return Kind::ids;
  throw Error("tokens: expected auto, characters, bytes, ids, got '{}'", kind);
}

Corpus load_corpus(const std::string& train_path, const std::string& valid_path,
                   const std::string& cache_folder, const Tokens& tokens) {
  if (train_path.empty()) throw Error("train: expected a text file or folder to train on");
  Vocabulary::Kind kind = tokens.of(train_path);
  if (kind == Vocabulary::Kind::characters) {
    return load_characters(train_path, valid_path, cache_folder);
  }
  int64_t ids = tokens.vocabulary > 0 ? tokens.vocabulary : kGpt2Vocabulary;
  Corpus corpus{
      kind == Vocabulary::Kind::bytes ? Vocabulary::bytes() : Vocabulary::of_ids(ids), {}, {}};
  corpus.train = load_tokens(train_path, corpus.vocabulary);
  if (!valid_path.empty()) {
    corpus.valid = load_tokens(valid_path, corpus.vocabulary);
    return corpus;
  }
  size_t cut = corpus.train.size() - corpus.train.size() / 10;
  corpus.valid.assign(corpus.train.begin() + static_cast<std::ptrdiff_t>(cut), corpus.train.end());
  corpus.train.resize(cut);
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
  if (vocabulary.kind() == Vocabulary::Kind::ids) {
    return read_token_file(path, static_cast<int64_t>(vocabulary.known()));
  }
  if (vocabulary.kind() == Vocabulary::Kind::bytes) return vocabulary.encode(read_bytes(path));
  std::string text = read_text(path);
  try {
    return vocabulary.encode(text);
  } catch (const Error& error) {
    throw Error("{}: {}; the model was trained on another alphabet", path, error.what());
  }
}

}  // namespace sigma1
