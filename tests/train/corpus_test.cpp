#include "sigma1/train/corpus.h"

#include <gtest/gtest.h>

namespace sigma1 {
namespace {

TEST(RandomCorpus, HasEveryTokenAboutEquallyOften) {
  constexpr size_t kVocabulary = 50, kCount = 50'000;
  Corpus corpus = random_corpus(kVocabulary, kCount, 1);
  EXPECT_EQ(corpus.vocabulary.size(), kVocabulary);
  ASSERT_EQ(corpus.train.size(), kCount);
  EXPECT_EQ(corpus.valid.size(), kCount / 10);
  std::vector<int> counts(kVocabulary);
  for (uint16_t token : corpus.train) {
    ASSERT_LT(token, kVocabulary);
    ++counts[token];
  }
  for (int count : counts) EXPECT_NEAR(count, 1000, 5 * 31);  // five standard deviations
}

TEST(RandomCorpus, IsItsSeeds) {
  Corpus corpus = random_corpus(300, 2000, 1), same = random_corpus(300, 2000, 1);
  EXPECT_EQ(corpus.train, same.train);
  EXPECT_EQ(corpus.valid, same.valid);
  EXPECT_NE(corpus.train, random_corpus(300, 2000, 2).train);
  EXPECT_FALSE(std::equal(corpus.valid.begin(), corpus.valid.end(), corpus.train.begin()));
}

// A checkpoint carries the alphabet as text, whatever its size.
TEST(RandomCorpus, ItsAlphabetCanBeWrittenAndRead) {
  for (int64_t vocabulary : {1, 5008, 65536}) {
    Vocabulary alphabet = random_corpus(vocabulary, 10, 1).vocabulary;
    EXPECT_EQ(static_cast<int64_t>(alphabet.size()), vocabulary);
    EXPECT_TRUE(Vocabulary::parse(alphabet.serialize()) == alphabet);
    std::vector<uint16_t> ends{0, static_cast<uint16_t>(vocabulary - 1)};
    EXPECT_EQ(alphabet.encode(alphabet.decode(ends)), ends);
  }
}

}  // namespace
}  // namespace sigma1
