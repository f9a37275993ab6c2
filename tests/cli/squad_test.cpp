// The numbers are tested with the library's code; here, which of them are shown, and warnings.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/run_program.h"

namespace sigma1 {
namespace {

using nlohmann::json;

class SquadCommand : public testing::Test {
 protected:
  void SetUp() override {
    auto test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::path(testing::TempDir()) / (std::string("sigma1_squad_") + test->name());
    std::filesystem::create_directories(folder_);
    predictions_ = write("p.json", R"({"a": "The cat"})");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  std::string data(const std::string& version,
                   const std::string& answers = R"([{"text": "cat"}])") {
    return write("data.json", R"({"version": ")" + version +
                                  R"(", "data": [{"title": "T", "paragraphs":
      [{"qas": [{"id": "a", "answers": )" +
                                  answers + R"(}, {"id": "b", "answers": [{"text": "x"}]}]}]}]})");
  }
  void expect_mistake(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& named) {
    ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
    for (const std::string& word : named)
      EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
  }

  // Not json_from: a warning is no failure here.
  static json scores(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"squad", "evaluate", "--json"});
    ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }

  std::filesystem::path folder_;
  std::string predictions_;
};

TEST_F(SquadCommand, ChoosesByVersion) {
  EXPECT_EQ(scores({data("1.1"), predictions_}),
            json::parse(R"({"exact_match": 50.0, "f1": 50.0})"));
  EXPECT_EQ(
      scores({data("v2.0"), predictions_}),
      json::parse(
          R"({"exact": 100.0, "f1": 100.0, "total": 1, "HasAns_exact": 100.0, "HasAns_f1": 100.0,
                            "HasAns_total": 1})"));
}

TEST_F(SquadCommand, WarnsOfMissingPredictions) {
  ProgramResult result = run_program({"squad", "evaluate", data("v2.0"), predictions_});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.err.find("1 question (b), which are left out"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("HasAns_exact  100.0000"), std::string::npos) << result.out;
}

TEST_F(SquadCommand, TakesProbabilities) {
  std::string probabilities = write("n.json", R"({"a": 0.5})");
  json found = scores({data("v2.0"), predictions_, "--na-prob", probabilities});
  EXPECT_EQ(found["best_f1_thresh"], 0.5);
  EXPECT_EQ(found["exact"], 100.0);
  found =
      scores({data("v2.0"), predictions_, "--na-prob", probabilities, "--na-prob-thresh", "0.4"});
  EXPECT_EQ(found["exact"], 0.0);
}

TEST_F(SquadCommand, NamesMistakesInOneLine) {
  std::string bad = write("bad.json", R"({"a": 3})");
  expect_mistake({"squad", "evaluate", data("1.1"), bad}, {bad, "'a'"});
  expect_mistake({"squad", "evaluate", data("1.1", "3"), predictions_},
                 {"data.json", "'T'", "'a'"});
  expect_mistake({"squad", "evaluate", data("1.1", "[]"), predictions_},
                 {"data.json", "'T'", "'a'"});
  expect_mistake({"squad", "evaluate", data("1.1"), predictions_, "--na-prob", bad},
                 {"--na-prob", "1.1"});
  std::string other = write("other.json", R"({"z": 1})");
  expect_mistake({"squad", "evaluate", data("v2.0"), predictions_, "--na-prob", other},
                 {other, "'a'"});
  std::string none = write("none.json", R"({"z": "y"})");
  expect_mistake({"squad", "evaluate", data("v2.0"), none}, {none});
}

}  // namespace
}  // namespace sigma1
