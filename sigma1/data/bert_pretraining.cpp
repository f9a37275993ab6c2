#include "sigma1/data/bert_pretraining.h"

#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/base/rng.h"
#include "sigma1/data/sentences.h"

namespace sigma1 {
namespace {

constexpr int64_t kSpecial = 3;  // [CLS], and a [SEP] behind each text

// Numbers drawn one after the other, for a procedure whose every choice depends on those before.
class Draws {
 public:
  explicit Draws(RandomStream random) : random_(random) {}

  double share() { return random_.uniform(next_++); }
  // Of low … high.
  int64_t between(int64_t low, int64_t high) {
    auto count = static_cast<double>(high - low + 1);
    return std::min(high, low + static_cast<int64_t>(share() * count));
  }

 private:
  RandomStream random_;
  uint64_t next_ = 0;
};

using Ids = std::vector<uint16_t>;

void append(Ids& ids, const Ids& more) { ids.insert(ids.end(), more.begin(), more.end()); }

// Off the longer text, at either end, so that neither its beginnings nor its ends are preferred.
void truncate(Ids& a, Ids& b, int64_t most, Draws& draws) {
  size_t from_a = 0, from_b = 0, length_a = a.size(), length_b = b.size();
  while (static_cast<int64_t>(length_a + length_b) > most) {
    bool front = draws.share()<0.5, of_a = length_a> length_b;
    if (front) ++(of_a ? from_a : from_b);
    --(of_a ? length_a : length_b);
  }
  auto keep = [](Ids& ids, size_t from, size_t length) {
    ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(from));
    ids.resize(length);
  };
  keep(a, from_a, length_a);
  keep(b, from_b, length_b);
}

class PairMaker {
 public:
  PairMaker(const std::vector<BertDocument>& documents, const BertSpecialTokens& special,
            const BertPreparation& preparation)
      : documents_(documents),
        special_(special),
        preparation_(preparation),
        most_(preparation.time - kSpecial) {}

  void add_document(size_t index, uint64_t pass) {
    Draws draws(RandomStream(preparation_.seed, "bert pairs",
                             pass * documents_.size() + static_cast<uint64_t>(index)));
    const BertDocument& document = documents_[index];
    int64_t target = draw_target(draws);
    for (size_t begin = 0, end = 0, length = 0; end < document.size();) {
      length += document[end++].size();
      if (end < document.size() && static_cast<int64_t>(length) < target) continue;
      // Sentences that a random text takes the place of are used again.
      end = add_pair(index, begin, end, target, draws);
      begin = end;
      length = 0;
      target = draw_target(draws);
    }
  }

  std::vector<uint16_t> take_records() { return std::move(records_); }

 private:
  int64_t draw_target(Draws& draws) const {
    bool is_short = draws.share() < preparation_.short_share;
    return is_short ? draws.between(2, most_) : most_;
  }

  // Of the sentences [begin, end) of a document; gives the end of those that were used.
  size_t add_pair(size_t index, size_t begin, size_t end, int64_t target, Draws& draws) {
    const BertDocument& document = documents_[index];
    auto sentences = static_cast<int64_t>(end - begin);
    size_t middle =
        begin + static_cast<size_t>(sentences < 2 ? 1 : draws.between(1, sentences - 1));
    Ids a, b;
    for (size_t i = begin; i < middle; ++i) append(a, document[i]);
    bool is_random = sentences < 2 || draws.share() < preparation_.random_share;
    if (is_random) {
      append_random(b, index, target - static_cast<int64_t>(a.size()), draws);
      end = middle;
    } else {
      for (size_t i = middle; i < end; ++i) append(b, document[i]);
    }
    truncate(a, b, most_, draws);
    add_record(a, b, is_random);
    return end;
  }

  void append_random(Ids& b, size_t not_this, int64_t target, Draws& draws) const {
    auto others = static_cast<int64_t>(documents_.size()) - 1;
    auto other = static_cast<size_t>(draws.between(0, others - 1));
    const BertDocument& document = documents_[other < not_this ? other : other + 1];
    auto start = static_cast<size_t>(draws.between(0, static_cast<int64_t>(document.size()) - 1));
    for (size_t i = start; i < document.size(); ++i) {
      append(b, document[i]);
      if (static_cast<int64_t>(b.size()) >= target) return;
    }
  }

  void add_record(const Ids& a, const Ids& b, bool is_random) {
    size_t first = records_.size(), length = a.size() + b.size() + kSpecial;
    auto id = [](uint32_t token) { return static_cast<uint16_t>(token); };
    records_.push_back(static_cast<uint16_t>(length));
    records_.push_back(static_cast<uint16_t>(a.size() + 2));
    records_.push_back(is_random ? 1 : 0);
    records_.push_back(id(special_.cls));
    append(records_, a);
    records_.push_back(id(special_.sep));
    append(records_, b);
    records_.push_back(id(special_.sep));
    records_.resize(first + static_cast<size_t>(BertInstance::kHead + preparation_.time),
                    id(special_.pad));
  }

  const std::vector<BertDocument>& documents_;
  BertSpecialTokens special_;
  const BertPreparation& preparation_;
  int64_t most_;
  std::vector<uint16_t> records_;
};

}  // namespace

BertSpecialTokens bert_special_tokens(const WordPiece& pieces) {
  constexpr size_t kMost = 1 << 16;
  if (pieces.size() > kMost) {
    throw Error("vocabulary: expected at most {} tokens, got {}", kMost, pieces.size());
  }
  return {pieces.id("[PAD]"), pieces.id("[CLS]"), pieces.id("[SEP]"), pieces.id("[MASK]")};
}

std::vector<BertDocument> bert_documents(std::string_view text, const WordPiece& pieces,
                                         const PreparationProgress& progress) {
  constexpr size_t kAtOnce = 4096;  // documents: enough for all threads, and progress is told
  auto lines = split_documents(text);
  std::vector<BertDocument> documents;
  for (size_t begin = 0; begin < lines.size(); begin += kAtOnce) {
    if (progress) {
      progress("documents", static_cast<int64_t>(begin), static_cast<int64_t>(lines.size()));
    }
    size_t end = std::min(begin + kAtOnce, lines.size());
    std::vector<std::string_view> sentences;
    std::vector<size_t> ends;
    for (size_t i = begin; i < end; ++i) {
      for (std::string_view line : lines[i]) {
        std::vector<std::string_view> more = split_sentences(line);
        sentences.insert(sentences.end(), more.begin(), more.end());
      }
      ends.push_back(sentences.size());
    }
    auto ids = pieces.ids_of_all(sentences, SpecialTokens::split);
    for (size_t i = 0, at = 0; i < ends.size(); ++i) {
      BertDocument document;
      for (; at < ends[i]; ++at) {
        if (!ids[at].empty()) document.emplace_back(ids[at].begin(), ids[at].end());
      }
      if (!document.empty()) documents.push_back(std::move(document));
    }
  }
  return documents;
}

std::vector<uint16_t> bert_records(const std::vector<BertDocument>& documents,
                                   const BertSpecialTokens& special,
                                   const BertPreparation& preparation,
                                   const PreparationProgress& progress) {
  constexpr int64_t kMostTime = 1 << 15;
  if (preparation.time < kSpecial + 2 || preparation.time > kMostTime) {
    throw Error("time: expected {} to {}, got {}", kSpecial + 2, kMostTime, preparation.time);
  }
  if (preparation.passes < 1) {
    throw Error("passes: expected at least 1, got {}", preparation.passes);
  }
  if (documents.size() < 2) {
    throw Error("expected at least two documents, with a blank line between, got {}",
                documents.size());
  }
  PairMaker maker(documents, special, preparation);
  auto count = static_cast<int64_t>(documents.size());
  for (int64_t i = 0; i < count; ++i) {
    if (progress && i % 1024 == 0) progress("pairs", i, count);
    // All of a document side by side, so that the end of a file can be kept for validation.
    for (int64_t pass = 0; pass < preparation.passes; ++pass) {
      maker.add_document(static_cast<size_t>(i), static_cast<uint64_t>(pass));
    }
  }
  return maker.take_records();
}

}  // namespace sigma1
