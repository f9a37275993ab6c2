#include "sigma1/data/text_file.h"

#include <zstd.h>

#include "sigma1/base/error.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

std::string compress(const std::string& text) {
  std::string bytes(ZSTD_compressBound(text.size()), '\0');
  bytes.resize(ZSTD_compress(bytes.data(), bytes.size(), text.data(), text.size(), 3));
  return bytes;
}

// Long enough for many blocks, and with a part that does not compress away.
std::string long_text(size_t lines = 100'000) {
  std::string text;
  for (size_t i = 0; i < lines; ++i) text += std::to_string(i * i * 7919) + " é line\n";
  return text;
}

class TextFile : public TemporaryFolderTest {
 protected:
  void expect_error(const std::string& path, const std::string& part) {
    EXPECT_THROW(read_text(path), Error);
    std::string message = error_of([&] { read_text(path); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
};

TEST_F(TextFile, ReadsPlainAndCompressedAlike) {
  std::string text = long_text();
  EXPECT_TRUE(read_text(write("corpus", text)) == text);
  EXPECT_TRUE(read_text(write("corpus.zst", compress(text))) == text);
}

TEST_F(TextFile, ReadsSeveralFrames) {
  EXPECT_EQ(read_text(write("two.zst", compress("first ") + compress("second"))), "first second");
}

TEST_F(TextFile, ReadsTextsThatFillTheLastPieceExactly) {
  for (size_t size : {size_t{1} << 18, (size_t{1} << 18) + 1, size_t{1} << 19}) {
    std::string text(size, 'x');
    EXPECT_TRUE(read_text(write("even.zst", compress(text))) == text) << size;
    EXPECT_TRUE(read_text(write("even.txt", text)) == text) << size;
  }
}

TEST_F(TextFile, JoinsTheTextsOfAFolderByName) {
  write("c.raw", "3");
  write("a.txt", "1");
  write("d.tokens", "4");
  write("b.txt.zst", compress("2"));
  write("a.json", "no");
  write("b.zst", "no");
  write("txt", "no");
  std::filesystem::create_directory(folder_ / "e.txt");
  EXPECT_EQ(read_text(folder_), "1234");
}

TEST_F(TextFile, RefusesWhatIsMissingOrEmpty) {
  expect_error(folder_ / "none.txt", "got nothing");
  expect_error(write("empty.txt", ""), "empty");
  expect_error(write("empty.zst", ""), "empty");
  expect_error(write("nothing.zst", compress("")), "empty");
}

TEST_F(TextFile, RefusesAFolderWithoutTexts) {
  write("notes.md", "no");
  expect_error(folder_, "got none");
}

TEST_F(TextFile, RefusesWhatCannotBeRead) {
  if (!std::filesystem::exists("/proc/self/mem")) GTEST_SKIP() << "no file that fails to be read";
  expect_error("/proc/self/mem", "cannot read");
}

TEST_F(TextFile, RefusesTruncatedZstdWhereverItIsCut) {
  std::string bytes = compress(long_text(2000));
  for (size_t size = 1; size < bytes.size(); size += size < 40 ? 1 : bytes.size() / 50)
    expect_error(write("cut.zst", bytes.substr(0, size)), "ends within a frame");
  expect_error(write("cut.zst", bytes.substr(0, bytes.size() - 1)), "ends within a frame");
  std::string second = bytes + compress("more").substr(0, 6);
  expect_error(write("cut.zst", second), "ends within a frame");
}

TEST_F(TextFile, RefusesDamagedZstd) {
  std::string bytes = compress(long_text(2000));
  expect_error(write("plain.zst", "this is plain text, not zstd"), "damage");
  expect_error(write("trailing.zst", bytes + "garbage"), "damage");
  std::string damaged = bytes;
  for (size_t i = bytes.size() / 2; i < bytes.size() / 2 + 64; ++i) damaged[i] = '\xFF';
  EXPECT_THROW(read_text(write("damaged.zst", damaged)), Error);
}

TEST_F(TextFile, NamesTheByteThatIsNotUtf8) {
  std::string path = write("latin.txt", "caf\xE9 au lait");
  expect_error(path, "0xE9");
  expect_error(path, "offset 3");
  expect_error(write("latin.zst", compress("caf\xE9")), "offset 3");
}

TEST_F(TextFile, ACharacterMayNotSpanTwoFiles) {
  write("a.txt", "\xC3");
  write("b.txt", "\xA9");
  EXPECT_NE(error_of([&] { read_text(folder_); }).find("a.txt"), std::string::npos);
}

TEST_F(TextFile, BytesNeedNotBeText) {
  std::string bytes = "\xFF\xC3\x28 and more";
  EXPECT_EQ(read_bytes(write("data", bytes)), bytes);
  EXPECT_EQ(read_bytes(write("data.zst", compress(bytes))), bytes);
  EXPECT_THROW(read_text(folder_ / "data"), Error);
  EXPECT_THROW(read_bytes(write("none", "")), Error);
  EXPECT_THROW(read_bytes(folder_ / "missing"), Error);
}

}  // namespace
}  // namespace sigma1
