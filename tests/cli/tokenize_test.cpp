// What tokens are right is tested with the library's code; here, how texts come in and tokens out.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/run_program.h"

namespace sigma1 {
namespace {

using nlohmann::json;

class Tokenize : public testing::Test {
 protected:
  void SetUp() override {
    auto test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("sigma1_tokenize_") + test->name());
    std::filesystem::create_directories(folder_);
    vocabulary_ = write("vocab.txt", "[UNK]\n[MASK]\ncafe\ncafé\nCafé\n##s\n[\nmask\n]\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  json tokens(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"tokenize", "--vocab", vocabulary_});
    return json_from(arguments);
  }

  std::filesystem::path folder_;
  std::string vocabulary_;
};

TEST_F(Tokenize, GivesIdsAndTokensOfEachText) {
  EXPECT_EQ(
      tokens({"Cafés", "x"}),
      json::parse(R"([{"ids":[2,5],"tokens":["cafe","##s"]},{"ids":[0],"tokens":["[UNK]"]}])"));
  EXPECT_EQ(tokens({"--cased", "Cafés"})[0]["ids"], json({4, 5}));
  EXPECT_EQ(tokens({"[MASK]"})[0]["ids"], json({1}));
  EXPECT_EQ(tokens({"--split-special", "[MASK]"})[0]["ids"], json({6, 7, 8}));
}

TEST_F(Tokenize, TakesTextsAsTheyAre) {
  EXPECT_EQ(tokens({"[cafe,cafe]", ""}),
            json::parse(R"([{"ids":[6,2,0,2,8],"tokens":["[","cafe","[UNK]","cafe","]"]},
                            {"ids":[],"tokens":[]}])"));
}

TEST_F(Tokenize, GivesOffsetsInCharactersAndBytes) {
  json found = tokens({"--offsets", "é Cafés"})[0];
  EXPECT_EQ(found["offsets"], json::parse("[[0,1],[2,6],[6,7]]"));
  EXPECT_EQ(found["byte_offsets"], json::parse("[[0,2],[3,8],[8,9]]"));
  EXPECT_EQ(tokens({"--offsets", ""})[0]["offsets"], json::array());
}

TEST_F(Tokenize, ReadsFiles) {
  EXPECT_EQ(tokens({write("text.txt", "cafe\ncafe")})[0]["ids"], json({2, 2}));
  EXPECT_EQ(tokens({folder_.string()})[0]["ids"][0], 0) << "a folder's name is a text";
}

TEST_F(Tokenize, PrintsATable) {
  ProgramResult result = run_program({"tokenize", "--vocab", vocabulary_, "--offsets", "Cafés"});
  EXPECT_EQ(result.exit_code, 0);
  std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 3u) << result.out;
  EXPECT_NE(lines[1].find("0:4"), std::string::npos) << result.out;
  EXPECT_NE(lines[2].find("5:6"), std::string::npos) << result.out;
}

TEST_F(Tokenize, Counts) {
  json found = tokens({"--count", write("text.txt", "cafe x\ncafes\n")});
  EXPECT_EQ(found["tokens"], 4);
  EXPECT_EQ(found["unknown"], 1);
  EXPECT_EQ(found["bytes"], 13);
}

TEST_F(Tokenize, KnowsATextFromAFlag) {
  EXPECT_EQ(tokens({"-- cafe"})[0]["ids"], json({0, 0, 2}));
  for (std::vector<std::string> rest : {std::vector<std::string>{"--ofsets", "a"}, {}}) {
    rest.insert(rest.begin(), {"tokenize", "--vocab", vocabulary_});
    ProgramResult result = run_program(rest);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  }
}

TEST_F(Tokenize, NamesAVocabularyThatIsNone) {
  std::string path = write("bad.txt", "a\n");
  ProgramResult result = run_program({"tokenize", "--vocab", path, "a"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find(path), std::string::npos) << result.err;
  EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
}

}  // namespace
}  // namespace sigma1
