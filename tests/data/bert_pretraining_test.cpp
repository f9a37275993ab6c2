#include "sigma1/data/bert_pretraining.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/data/bert_batch.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

constexpr BertSpecialTokens kSpecial{.pad = 0, .cls = 1, .sep = 2, .mask = 3};
constexpr int64_t kTime = 32;
constexpr uint32_t kVocabulary = 1000;

// Documents whose tokens say where they come from: 10 + 20·document + place in it.
std::vector<BertDocument> numbered(size_t count) {
  std::vector<BertDocument> documents(count);
  for (size_t d = 0; d < count; ++d) {
    auto next = static_cast<uint16_t>(10 + 20 * d);
    for (size_t length : {3U, 5U, 1U, 4U, 6U}) {
      documents[d].emplace_back();
      for (size_t i = 0; i < length; ++i) documents[d].back().push_back(next++);
    }
  }
  return documents;
}

class BertPairs : public TemporaryFolderTest {
 protected:
  BertInstances prepare(const BertPreparation& preparation, size_t documents = 40) {
    std::string path = (folder_ / "pairs").string();
    auto records = bert_records(numbered(documents), kSpecial, preparation);
    write_bert_instances(path, {static_cast<uint32_t>(preparation.time), kVocabulary, kSpecial},
                         records);
    return BertInstances(path);
  }
};

TEST_F(BertPairs, AreTwoTextsBetweenTheirMarks) {
  BertInstances pairs = prepare({.time = kTime, .passes = 20});
  ASSERT_GT(pairs.count(), 800);
  int64_t random = 0, full = 0;
  for (int64_t i = 0; i < pairs.count(); ++i) {
    BertInstance pair = pairs.at(i);
    auto a = static_cast<size_t>(pair.first_length), all = static_cast<size_t>(pair.length);
    ASSERT_LE(pair.length, kTime);
    EXPECT_EQ(pair.tokens[0], kSpecial.cls);
    EXPECT_EQ(pair.tokens[a - 1], kSpecial.sep);
    EXPECT_EQ(pair.tokens[all - 1], kSpecial.sep);
    auto document = [&](size_t at) { return (pair.tokens[at] - 10) / 20; };
    for (size_t at = 2; at + 1 < a; ++at) EXPECT_EQ(pair.tokens[at], pair.tokens[at - 1] + 1);
    for (size_t at = a + 1; at + 1 < all; ++at) EXPECT_EQ(pair.tokens[at], pair.tokens[at - 1] + 1);
    EXPECT_EQ(pair.is_random, document(1) != document(a));
    // What follows does so at once, unless tokens were cut off where the two meet.
    bool fits = pair.length < kTime;
    if (!pair.is_random && fits) {
      EXPECT_EQ(pair.tokens[a], pair.tokens[a - 2] + 1);
    }
    random += pair.is_random ? 1 : 0;
    full += pair.length == kTime ? 1 : 0;
  }
  // Single sentences at a document's end have no other second text than a random one.
  EXPECT_NEAR(static_cast<double>(random) / static_cast<double>(pairs.count()), 0.6, 0.12);
  EXPECT_LT(full, pairs.count());
}

// Every sentence is read, those too that a random text took the place of.
TEST_F(BertPairs, LeaveNoSentenceOut) {
  BertInstances pairs = prepare({.time = 64, .short_share = 0});
  std::set<uint16_t> seen;
  for (int64_t i = 0; i < pairs.count(); ++i) {
    BertInstance pair = pairs.at(i);
    for (int64_t at = 1; at + 1 < pair.first_length; ++at) {
      seen.insert(pair.tokens[static_cast<size_t>(at)]);
    }
    if (pair.is_random) continue;
    for (int64_t at = pair.first_length; at + 1 < pair.length; ++at) {
      seen.insert(pair.tokens[static_cast<size_t>(at)]);
    }
  }
  EXPECT_EQ(seen.size(), 40U * 19);
}

TEST_F(BertPairs, AreTheSameForTheSameSeed) {
  auto records = [&](BertPreparation with) { return bert_records(numbered(9), kSpecial, with); };
  EXPECT_EQ(records({.time = kTime, .seed = 3}), records({.time = kTime, .seed = 3}));
  EXPECT_NE(records({.time = kTime, .seed = 3}), records({.time = kTime, .seed = 4}));
}

TEST_F(BertPairs, MistakesAreNamed) {
  EXPECT_THROW(bert_records(numbered(1), kSpecial, {}), Error);
  EXPECT_THROW(bert_records(numbered(2), kSpecial, {.time = 4}), Error);
  EXPECT_THROW(bert_records(numbered(2), kSpecial, {.passes = 0}), Error);
  EXPECT_THROW(bert_special_tokens(WordPiece("[UNK]\n[CLS]\n", LetterCase::lower)), Error);
}

TEST_F(BertPairs, DamagedFilesAreRefused) {
  prepare({.time = kTime});
  std::string path = (folder_ / "pairs").string(), whole = read_file(path);
  auto refuses = [&](const std::string& content, const char* what) {
    write_file(path, content);
    EXPECT_THROW(BertInstances{path}, Error) << what;
  };
  for (size_t at : {size_t{0}, size_t{9}, size_t{13}, size_t{60}, size_t{64}, whole.size() - 1}) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    refuses(changed, "changed");
  }
  refuses(whole.substr(0, whole.size() - 2), "cut");
  refuses(whole + "xx", "longer");
  refuses("", "empty");
  EXPECT_THROW(BertInstances{(folder_ / "none").string()}, Error);
  write_file(path, whole);
  EXPECT_NO_THROW(BertInstances{path});
}

// Whole to the last bit, and still no vocabulary's.
TEST_F(BertPairs, SpecialTokensAreOfTheVocabulary) {
  std::string path = (folder_ / "pairs").string();
  auto records = bert_records(numbered(40), kSpecial, {.time = kTime});
  BertSpecialTokens special = kSpecial;
  special.mask = kVocabulary;
  write_bert_instances(path, {static_cast<uint32_t>(kTime), kVocabulary, special}, records);
  std::string error = error_of([&] { BertInstances{path}; });
  EXPECT_NE(error.find("special tokens"), std::string::npos) << error;
}

TEST(BertOrder, IsAPermutationOfItsOwnEachPass) {
  for (int64_t count : {1, 2, 3, 10, 64, 1000}) {
    std::set<int64_t> places;
    int64_t moved = 0;
    for (int64_t i = 0; i < count; ++i) {
      int64_t place = shuffled_place(i, count, 5, 1);
      places.insert(place);
      moved += place != shuffled_place(i, count, 5, 2) ? 1 : 0;
    }
    EXPECT_EQ(static_cast<int64_t>(places.size()), count);
    EXPECT_EQ(*places.begin(), 0);
    if (count > 9) {
      EXPECT_GE(moved, count / 2);
    }
  }
}

struct Sums {
  double masked = 0, kept = 0, other = 0, predicted = 0, tokens = 0;
};

// Checks a batch of whole pairs, and counts what became of the masked tokens.
void look(const BertBatch& batch, const BertInstance& pair, size_t row, Sums& sums) {
  constexpr size_t kPredictions = 20;
  std::vector<int32_t> plain(batch.tokens.begin() + static_cast<ptrdiff_t>(row) * kTime,
                             batch.tokens.begin() + static_cast<ptrdiff_t>(row + 1) * kTime);
  int32_t last = 0;
  for (size_t i = row * kPredictions; i < (row + 1) * kPredictions; ++i) {
    if (batch.masked_weights[i] == 0) continue;
    int32_t position = batch.masked_positions[i], label = batch.masked_labels[i];
    EXPECT_GT(position, last);  // in order, none twice, and never [CLS]
    last = position;
    int32_t& token = plain[static_cast<size_t>(position)];
    EXPECT_NE(label, static_cast<int32_t>(kSpecial.sep));
    (token == static_cast<int32_t>(kSpecial.mask) ? sums.masked
     : token == label                             ? sums.kept
                                                  : sums.other) += 1;
    token = label;
    ++sums.predicted;
  }
  for (size_t t = 0; t < static_cast<size_t>(kTime); ++t) {
    size_t at = row * static_cast<size_t>(kTime) + t;
    bool is_there = t < pair.tokens.size();
    EXPECT_EQ(plain[t], is_there ? pair.tokens[t] : 0);
    EXPECT_EQ(batch.padding[at], is_there ? 1 : 0);
    bool second = is_there && static_cast<int64_t>(t) >= pair.first_length;
    EXPECT_EQ(batch.segments[at], second ? 1 : 0);
  }
  EXPECT_EQ(batch.next_sentence[row], pair.is_random ? 1 : 0);
  sums.tokens += static_cast<double>(pair.length);
}

TEST_F(BertPairs, AreMaskedAsDevlinDoes) {
  BertInstances pairs = prepare({.time = kTime, .passes = 10});
  BertRange range{pairs, 0, pairs.count()};
  Sums sums;
  for (int64_t first = 0; first + 8 <= pairs.count(); first += 8) {
    BertBatch batch = evaluation_batch(range, 8, first);
    for (size_t row = 0; row < 8; ++row) {
      look(batch, pairs.at(first + static_cast<int64_t>(row)), row, sums);
    }
  }
  EXPECT_NEAR(sums.predicted / sums.tokens, 0.15, 0.02);
  EXPECT_NEAR(sums.masked / sums.predicted, 0.8, 0.03);
  EXPECT_NEAR(sums.kept / sums.predicted, 0.1, 0.03);
  EXPECT_NEAR(sums.other / sums.predicted, 0.1, 0.03);
}

TEST_F(BertPairs, NoMoreAreMaskedThanThereIsRoomFor) {
  BertInstances pairs = prepare({.time = kTime, .short_share = 0});
  BertBatch batch = evaluation_batch({pairs, 0, pairs.count()}, 8, 0, {.predictions = 2});
  EXPECT_EQ(batch.masked_positions.size(), 16U);
  for (float weight : batch.masked_weights) EXPECT_EQ(weight, 1);
}

TEST_F(BertPairs, BeyondTheLastNothingCounts) {
  BertInstances pairs = prepare({.time = kTime});
  BertBatch batch = evaluation_batch({pairs, 2, 3}, 4, 2);
  for (size_t i = 20; i < 80; ++i) EXPECT_EQ(batch.masked_weights[i], 0);
  EXPECT_GT(batch.masked_weights[0], 1);
  EXPECT_NEAR(std::accumulate(batch.masked_weights.begin(), batch.masked_weights.end(), 0.0), 80,
              1e-4);
}

// Each pass sees every pair of the range once, the next in another order and with other masks.
TEST_F(BertPairs, EachIsTrainedOnOnceAPass) {
  BertInstances pairs = prepare({.time = kTime});
  BertRange range{pairs, 3, 24};
  auto labels_of_pass = [&](uint64_t pass) {
    std::map<std::vector<int32_t>, int> next_sentences;
    std::vector<int32_t> positions;
    for (uint64_t i = 0; i < 6; ++i) {
      BertBatch batch = training_batch(range, 4, 7, pass * 6 + i);
      positions.insert(positions.end(), batch.masked_positions.begin(),
                       batch.masked_positions.end());
      for (int64_t row = 0; row < 4; ++row) {
        auto begin = batch.padding.begin() + row * kTime;
        auto length = static_cast<int32_t>(std::count(begin, begin + kTime, 1.0f));
        ++next_sentences[{batch.next_sentence[static_cast<size_t>(row)], length}];
      }
    }
    return std::pair(next_sentences, positions);
  };
  auto [first, first_masks] = labels_of_pass(0);
  auto [second, second_masks] = labels_of_pass(1);
  std::map<std::vector<int32_t>, int> expected;
  for (int64_t i = 3; i < 27; ++i) {
    ++expected[{pairs.at(i).is_random ? 1 : 0, static_cast<int32_t>(pairs.at(i).length)}];
  }
  EXPECT_EQ(first, expected);
  EXPECT_EQ(second, expected);
  EXPECT_NE(first_masks, second_masks);
  EXPECT_EQ(labels_of_pass(1).second, second_masks);
}

}  // namespace
}  // namespace sigma1
