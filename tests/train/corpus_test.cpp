#include "sigma1/train/corpus.h"

#include <gtest/gtest.h>

#include "sigma1/base/error.h"
#include "sigma1/data/token_file.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

using namespace std::string_literals;

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

class LoadedCorpus : public TemporaryFolderTest {};

TEST_F(LoadedCorpus, ByBytesTakesWhatIsNoText) {
  std::string bytes = "\xFF\x00 not UTF-8 \xC3\x28"s + std::string(80, '\xFE');
  std::string path = write("data.raw", bytes);
  Corpus corpus = load_corpus(path, "", "", {.kind = "bytes"});
  EXPECT_EQ(corpus.vocabulary.size(), 256U);
  EXPECT_EQ(corpus.train.size() + corpus.valid.size(), bytes.size());
  EXPECT_EQ(corpus.valid.size(), bytes.size() / 10);
  EXPECT_EQ(corpus.vocabulary.decode(corpus.train) + corpus.vocabulary.decode(corpus.valid), bytes);
  EXPECT_THROW(load_corpus(path, "", ""), Error);
}

TEST_F(LoadedCorpus, OfATokenFileHasItsIds) {
  std::vector<uint16_t> ids;
  for (uint16_t i = 0; i < 100; ++i) ids.push_back(static_cast<uint16_t>(7 * i));
  std::string path = folder_ / "train.bin";
  write_token_file(path, ids);
  Corpus corpus = load_corpus(path, "", "");
  EXPECT_EQ(corpus.vocabulary.known(), 50257U);
  EXPECT_EQ(corpus.train, std::vector<uint16_t>(ids.begin(), ids.begin() + 90));
  EXPECT_EQ(corpus.valid, std::vector<uint16_t>(ids.begin() + 90, ids.end()));
  Corpus small = load_corpus(path, path, "", {.vocabulary = 700});
  EXPECT_EQ(small.vocabulary.size(), 704U);
  EXPECT_EQ(small.valid, ids);
  EXPECT_THROW(load_corpus(path, "", "", {.vocabulary = 693}), Error);
  EXPECT_EQ(load_corpus(path, "", "", {.kind = "bytes"}).train.size(), 1224 * 9 / 10 + 1U);
}

TEST(CorpusTokens, AreToldByTheNameUnlessSaid) {
  using Kind = Vocabulary::Kind;
  EXPECT_EQ(Tokens{}.of("a.bin"), Kind::ids);
  EXPECT_EQ(Tokens{}.of("a.txt.zst"), Kind::characters);
  EXPECT_EQ(Tokens{.kind = "characters"}.of("a.bin"), Kind::characters);
  EXPECT_EQ(Tokens{.kind = "ids"}.of("a.txt"), Kind::ids);
  EXPECT_EQ(Tokens{.kind = "bytes"}.of("a.bin"), Kind::bytes);
  EXPECT_THROW(Tokens{.kind = "words"}.of("a.txt"), Error);
}

}  // namespace
}  // namespace sigma1
