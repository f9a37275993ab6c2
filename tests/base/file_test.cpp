#include "sigma1/base/file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

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

  std::string read(const fs::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  fs::path folder_;
};

TEST_F(FileTest, ReplacesContentAndLeavesNothingElse) {
  std::string path = folder_ / "figure.svg";
  write_file(path, "a longer first version");
  write_file(path, "second");
  EXPECT_EQ(read(path), "second");
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

TEST_F(FileTest, WritesIntoADevice) { EXPECT_NO_THROW(write_file("/dev/null", "x")); }

}  // namespace
}  // namespace sigma1
