#include <gtest/gtest.h>

#include "tests/cli/run_program.h"

namespace sigma1 {
namespace {

TEST(Bench, IsAListOfRatios) {
  nlohmann::json list =
      json_from({"bench", "cpu", "--depth", "1", "--vocabulary", "50", "--rounds", "1"});
  ASSERT_TRUE(list.is_array());
  ASSERT_EQ(list.size(), 6U);
  for (const auto& row : list) {
    EXPECT_EQ(row.size(), 4U) << row;
    EXPECT_TRUE(row["name"].is_string()) << row;
    double ms = row["ms"], floor_ms = row["floor_ms"];
    EXPECT_GT(ms, 0);
    EXPECT_GT(floor_ms, 0);
    EXPECT_DOUBLE_EQ(row["ratio"].get<double>(), ms / floor_ms);
  }
}

TEST(Bench, ProfileNamesOps) {
  ProgramResult result =
      run_program({"bench", "cpu", "--depth", "1", "--vocabulary", "50", "--profile", "unit fp8"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("attention"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("arena"), std::string::npos) << result.out;
}

TEST(Bench, MistakesAreOneLine) {
  using Words = std::vector<std::string>;
  for (const Words& words :
       {Words{"--profile", "fp7", "--vocabulary", "50"}, Words{"--rounds", "0"},
        Words{"--depth", "0", "--vocabulary", "50"}, Words{"--vocabulary", "1"},
        Words{"--threads", "-1"}, Words{"--context", "x", "--vocabulary", "50"}}) {
    Words arguments{"bench", "cpu"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2) << words[0];
    EXPECT_EQ(result.out, "") << words[0];
    EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  }
}

}  // namespace
}  // namespace sigma1
