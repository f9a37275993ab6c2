#include "sigma1/base/file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    auto test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("sigma1_file_test_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(FileTest, ReplacesContentAndLeavesNothingElse) {
  std::string path = folder_ / "figure.svg";
  write_file(path, "a longer first version");
  write_file(path, "second");
  EXPECT_EQ(read_file(path), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(FileTest, FailureNamesThePathAndKeepsNothingHalfWritten) {
  std::string path = folder_ / "missing" / "figure.svg";
  try {
    write_file(path, "x");
    FAIL() << "wrote into a folder that does not exist";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
  }
  EXPECT_THROW(write_file(folder_, "x"), Error);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(FileTest, TellsBeforeWhatWritingWould) {
  std::string path = folder_ / "answers.json";
  EXPECT_NO_THROW(expect_writable(path));
  EXPECT_TRUE(fs::is_empty(folder_));
  write_file(path, "first");
  EXPECT_NO_THROW(expect_writable(path));
  EXPECT_EQ(read_file(path), "first");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  EXPECT_NO_THROW(expect_writable("/dev/null"));
  EXPECT_THROW(expect_writable(folder_), Error);
  EXPECT_THROW(expect_writable(folder_ / "missing" / "answers.json"), Error);
}

TEST_F(FileTest, WritesPiecesOneAfterTheOther) {
  std::string path = folder_ / "pieces";
  std::vector<std::string_view> pieces = {"one", "", "two"};
  write_file(path, pieces);
  EXPECT_EQ(read_file(path), "onetwo");
}

TEST_F(FileTest, ReadsEveryByteAndSaysWhatItCannotRead) {
  std::string path = folder_ / "bytes";
  std::string content(1 << 19, '\0');
  content += "\xFF\r\nend";
  write_file(path, content);
  EXPECT_EQ(read_file(path), content);
  for (const fs::path& unreadable : {folder_ / "missing", folder_}) try {
      read_file(unreadable);
      FAIL() << "read " << unreadable;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(unreadable), std::string::npos);
    }
}

TEST_F(FileTest, AppendsBehindWhatIsThere) {
  std::string path = folder_ / "lines";
  write_file(path, "first\n");
  AppendFile file(path);
  file.append("second\n");
  file.flush();
  EXPECT_EQ(read_file(path), "first\nsecond\n");
  EXPECT_THROW(AppendFile(path, AppendFile::Open::only_new), Error);
  EXPECT_THROW(AppendFile(folder_ / "missing" / "lines"), Error);
  EXPECT_NO_THROW(AppendFile(folder_ / "new", AppendFile::Open::only_new));
}

TEST_F(FileTest, ADiskThatIsFullIsAnError) {
  AppendFile full("/dev/full");
  full.append("x");
  EXPECT_THROW(full.flush(), Error);
}

TEST_F(FileTest, WritesIntoADevice) { EXPECT_NO_THROW(write_file("/dev/null", "x")); }

}  // namespace
}  // namespace sigma1
