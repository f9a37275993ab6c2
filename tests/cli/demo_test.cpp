#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/run_program.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

using Demo = TemporaryFolderTest;

TEST_F(Demo, ComparesSixWays) {
  std::string text = write("text.txt", tiny_text()), out = folder_ / "out";
  nlohmann::json list = json_from({"demo", text, "--out", out, "--steps", "1"});
  ASSERT_EQ(list.size(), 6U);
  for (const auto& row : list) {
    EXPECT_EQ(row["failure"], "") << row;
    EXPECT_GT(row["valid_bpc"].get<double>(), 0) << row;
  }
  EXPECT_EQ(list[0]["gradients_lost"], 0);
  EXPECT_GT(list[4]["gradients_lost"], list[5]["gradients_lost"]);  // regular and unit FP8
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(out) / "loss.svg"));
}

TEST_F(Demo, MistakesAreOneLineAndLeaveNothing) {
  std::string text = write("text.txt", tiny_text()), file = write("file", "x");
  std::string shortest = write("short.txt", "a"), out = folder_ / "out";
  struct Mistake {
    std::string text, out, named;
  };
  for (const Mistake& each : {Mistake{text, file, file}, {shortest, out, "too short"}}) {
    ProgramResult result = run_program({"demo", each.text, "--out", each.out, "--steps", "1"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
    EXPECT_NE(result.err.find(each.named), std::string::npos) << result.err;
  }
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace sigma1
