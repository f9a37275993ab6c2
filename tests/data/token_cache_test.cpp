#include "sigma1/data/token_cache.h"

#include <chrono>
#include <iterator>
#include <set>

#include "sigma1/base/error.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHeaderBytes = 40;

class TokenCache : public TemporaryFolderTest {
 protected:
  std::vector<uint16_t> tokens() { return cached_tokens(folder_, text_, vocabulary_); }
  std::string path() { return token_cache_path(folder_, text_, vocabulary_); }
  std::string content() {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void replace(const std::string& bytes) {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }

  std::string text_ = "the quick brown fox, été";
  Vocabulary vocabulary_ = Vocabulary::of_texts({text_});
  std::vector<uint16_t> expected_ = vocabulary_.encode(text_);
};

TEST_F(TokenCache, WritesOneFileAndReadsItBack) {
  EXPECT_EQ(tokens(), expected_);
  ASSERT_TRUE(fs::exists(path()));
  EXPECT_EQ(content().size(), kHeaderBytes + 2 * expected_.size());
  EXPECT_EQ(tokens(), expected_);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(TokenCache, IsNotWrittenAgainWhenGood) {
  tokens();
  auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(24);
  fs::last_write_time(path(), long_ago);
  auto stamp = fs::last_write_time(path());
  tokens();
  EXPECT_EQ(fs::last_write_time(path()), stamp);
}

TEST_F(TokenCache, EveryDamagedByteIsNoticedAndMended) {
  tokens();
  std::string good = content();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x80);
    replace(damaged);
    EXPECT_EQ(tokens(), expected_) << "byte " << i;
    EXPECT_EQ(content(), good) << "byte " << i;
  }
}

TEST_F(TokenCache, PairsOfDamagedHighBitsAreNoticed) {
  tokens();
  std::string good = content();
  for (size_t i = kHeaderBytes + 7; i + 8 < good.size(); i += 8) {
    std::string damaged = good;
    for (size_t j : {i, i + 8}) damaged[j] = static_cast<char>(damaged[j] ^ 0x80);
    replace(damaged);
    EXPECT_EQ(tokens(), expected_) << "byte " << i;
  }
}

TEST_F(TokenCache, EveryLengthButTheRightOneIsNoticed) {
  tokens();
  std::string good = content();
  for (size_t size = 0; size < good.size(); ++size) {
    replace(good.substr(0, size));
    EXPECT_EQ(tokens(), expected_) << size;
    EXPECT_EQ(content(), good) << size;
  }
  replace(good + "xy");
  EXPECT_EQ(tokens(), expected_);
  EXPECT_EQ(content(), good);
}

TEST_F(TokenCache, ACacheOfAnotherTextIsNotTrusted) {
  tokens();
  std::string other_text = "the box";
  cached_tokens(folder_, other_text, vocabulary_);
  fs::copy_file(token_cache_path(folder_, other_text, vocabulary_), path(),
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(tokens(), expected_);
}

TEST_F(TokenCache, TextsAndVocabulariesHaveTheirOwnFiles) {
  std::set<std::string> paths;
  for (const char* text : {"", "a", "b", "ab", "ba", "abababab", "ababababa", "abababababababab"})
    for (const char* alphabet : {"ab", "abc", "abcd"})
      paths.insert(token_cache_path(folder_, text, Vocabulary::of_texts({alphabet})));
  paths.insert(token_cache_path(folder_, std::string(1, '\0'), Vocabulary::of_texts({"ab"})));
  EXPECT_EQ(paths.size(), 25u);
}

TEST_F(TokenCache, MakesItsFolder) {
  std::string inner = folder_ / "a" / "b";
  EXPECT_EQ(cached_tokens(inner, text_, vocabulary_), expected_);
  EXPECT_TRUE(fs::exists(token_cache_path(inner, text_, vocabulary_)));
}

TEST_F(TokenCache, SaysWhenItCannotBeWritten) {
  std::string file = write("file", "not a folder");
  EXPECT_THROW(cached_tokens(file, text_, vocabulary_), Error);
}

}  // namespace
}  // namespace sigma1
