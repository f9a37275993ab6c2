// Sweeps of real runs, of a model small enough to be trained many times in a second.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/run_program.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kMethods =
    "method=none,precision=fp32,ladder=2^-8:2^-7 | method=unit,precision=fp8,ladder=2^-5:2^-4";

std::string read(const fs::path& path) {
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

class SweepProgram : public TemporaryFolderTest {
 protected:
  void SetUp() override {
    TemporaryFolderTest::SetUp();
    std::string text;
    for (int i = 0; i < 400; ++i) text += "number " + std::to_string(i * i) + " and so on\n";
    text_ = write("text.txt", text);
  }

  // 2 × 2 combinations, 2 rates each.
  Words arguments(const std::string& out, const Words& more = {}) {
    Words words = {"sweep",
                   "--train",
                   text_,
                   "--set",
                   "width=16",
                   "ffn=32",
                   "depth=1",
                   "time=16",
                   "batch=2",
                   "masked=4",
                   "steps=60",
                   "evaluate-limit=300",
                   "checkpoint-every=10",
                   "--vary",
                   "context=attention|conv",
                   "--vary",
                   kMethods,
                   "--threshold",
                   "9",
                   "--jobs",
                   "2",
                   "--out",
                   folder_ / out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // sweep.csv without the seconds, which are never the same.
  std::vector<std::string> results(const std::string& out) {
    std::vector<std::string> lines = lines_of(read(folder_ / out / "sweep.csv"));
    for (std::string& line : lines) {
      size_t folder = line.rfind(','), seconds = line.rfind(',', folder - 1);
      line.erase(seconds, folder - seconds);
    }
    return lines;
  }

  size_t finished(const std::string& out) {
    size_t count = 0;
    if (!fs::exists(folder_ / out)) return 0;
    for (const auto& entry : fs::directory_iterator(folder_ / out)) {
      count += fs::exists(entry.path() / "result.json") ? 1 : 0;
    }
    return count;
  }

  std::string text_;
};

TEST_F(SweepProgram, RunsEveryCombinationAtEveryRate) {
  ProgramResult result = run_program(arguments("a"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  auto table = lines_of(result.out);
  ASSERT_EQ(table.size(), 5U) << result.out;
  EXPECT_TRUE(table[0].starts_with("context")) << table[0];
  EXPECT_TRUE(table[4].starts_with("conv       unit    fp8           2       2^-4")) << table[4];
  auto csv = results("a");
  ASSERT_EQ(csv.size(), 9U);
  EXPECT_EQ(csv[0], "context,method,precision,rate,valid_bpc,status,steps,folder");
  EXPECT_TRUE(csv[1].starts_with("attention,none,fp32,0.00390625,")) << csv[1];
  EXPECT_TRUE(csv[8].ends_with(",ok,60,context=conv_method=unit_precision=fp8_rate=2^-4"));
  EXPECT_TRUE(fs::exists(folder_ / "a/context=conv_method=unit_precision=fp8_rate=2^-4/"
                                   "checkpoints/step-00000060.safetensors"));
}

TEST_F(SweepProgram, KilledAndCalledAgainItGivesTheSame) {
  run_program(arguments("whole"));
  ProgramResult killed =
      signal_program(arguments("cut"), SIGKILL, [&] { return finished("cut") >= 1; });
  EXPECT_EQ(killed.exit_code, -SIGKILL);
  EXPECT_LT(finished("cut"), 8U);
  ProgramResult again = run_program(arguments("cut"));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(results("cut"), results("whole"));
}

TEST_F(SweepProgram, StoppedItSaysHowToGoOn) {
  run_program(arguments("whole"));
  ProgramResult stopped =
      signal_program(arguments("cut"), SIGINT, [&] { return finished("cut") >= 1; });
  EXPECT_EQ(stopped.exit_code, 0);
  EXPECT_NE(stopped.err.find("the same command goes on"), std::string::npos) << stopped.err;
  EXPECT_LT(finished("cut"), 8U);
  auto json = json_from(arguments("cut"));
  EXPECT_EQ(json["finished"], true);
  EXPECT_EQ(results("cut"), results("whole"));
}

TEST_F(SweepProgram, PrintsJsonAndDrawsFigures) {
  auto json = json_from(arguments(
      "a", {"--figure", folder_ / "f.svg", "--figure-by", "method", "--ladder-figure",
            folder_ / "l.svg", "--ladder-figure-by", "context", "--curves", folder_ / "c.svg"}));
  ASSERT_EQ(json["combinations"].size(), 4U);
  auto first = json["combinations"][0];
  EXPECT_EQ(first["settings"]["context"], "attention");
  EXPECT_EQ(first["runs"].size(), 2U);
  double best = std::min(first["runs"][0]["valid_bpc"].get<double>(),
                         first["runs"][1]["valid_bpc"].get<double>());
  EXPECT_EQ(first["best"]["valid_bpc"], best);
  EXPECT_NE(read(folder_ / "f.svg").find(">unit<"), std::string::npos);
  EXPECT_NE(read(folder_ / "l_conv.svg").find(">unit fp8<"), std::string::npos);
  EXPECT_NE(read(folder_ / "l_attention.svg").find(">none fp32<"), std::string::npos);
  EXPECT_NE(read(folder_ / "c.svg").find("training loss"), std::string::npos);
}

TEST_F(SweepProgram, ARunThatDivergesIsAResult) {
  auto json = json_from({"sweep", "--train", text_, "--set", "width=16", "ffn=32", "depth=1",
                         "time=16", "batch=2", "masked=4", "steps=3", "method=loss-scale=1e30",
                         "precision=fp16", "--ladder", "2^-8:2^-4", "--out", folder_ / "d"});
  auto combination = json["combinations"][0];
  EXPECT_EQ(combination["best"], nullptr);
  ASSERT_EQ(combination["runs"].size(), 1U);
  EXPECT_EQ(combination["runs"][0]["status"], "diverged");
}

TEST_F(SweepProgram, ShortLaddersEndInAWholeRunAndATable) {
  auto json = json_from(
      arguments("a", {"--ladder-steps", "20", "--test", text_, "--table", folder_ / "t.md",
                      "--curves", folder_ / "c.svg", "--curves-by", "context"}));
  ASSERT_EQ(json["combinations"].size(), 4U);
  for (const auto& each : json["combinations"]) {
    ASSERT_EQ(each["runs"].size(), 3U);
    EXPECT_EQ(each["runs"][0]["steps"], 20);
    EXPECT_EQ(each["best"]["steps"], 60);
    EXPECT_EQ(each["best"]["folder"], each["runs"][2]["folder"]);
    EXPECT_GT(each["best"]["test_bpc"], 0);
    EXPECT_GT(each["best"]["step_ms"], 0);
    double chosen = std::min(each["runs"][0]["valid_bpc"].get<double>(),
                             each["runs"][1]["valid_bpc"].get<double>());
    size_t first = each["runs"][0]["valid_bpc"] == chosen ? 0 : 1;
    EXPECT_EQ(each["best"]["rate"], each["runs"][first]["rate"]);
  }
  auto table = lines_of(read(folder_ / "t.md"));
  ASSERT_EQ(table.size(), 6U);
  EXPECT_EQ(
      table[0],
      "| context | method | precision | best rate | steps | valid BPC | test BPC | ms a step |");
  EXPECT_EQ(table[1], "|---|---|---|---|---|---|---|---|");
  EXPECT_TRUE(table[5].starts_with("| conv | unit | fp8 | 2^-")) << table[5];
  EXPECT_NE(table[5].find(" | 60 | "), std::string::npos) << table[5];
  EXPECT_NE(read(folder_ / "c_attention.svg").find(">unit fp8<"), std::string::npos);
  EXPECT_NE(read(folder_ / "c_conv.svg").find(">none fp32<"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "c.svg"));
}

TEST_F(SweepProgram, DryRunListsAndRunsNothing) {
  std::string plan = write("plan.json", R"({"about": "What it is", "base": {"steps": 40},
      "vary": ["depth=1|2"], "ladder": "2^-4:2^-2"})");
  ProgramResult result = run_program({"sweep", "--sweep", plan, "--dry-run"});
  EXPECT_EQ(result.out,
            "What it is\n\n"
            "depth  rates         runs at most  steps\n"
            "    1  2^-4 to 2^-2             3     40\n"
            "    2  2^-4 to 2^-2             3     40\n"
            "\n2 combinations, at most 6 runs\n");
  auto runs = json_from({"sweep", "--sweep", plan, "--dry-run", "--vary", "depth=3", "--ladder",
                         "1:2", "--out", folder_ / "none"});
  EXPECT_EQ(runs, nlohmann::json({"depth=3_rate=2^0", "depth=3_rate=2^1"}));
  result = run_program({"sweep", "--sweep", plan, "--dry-run", "--ladder-steps", "5"});
  EXPECT_NE(result.out.find("    2  2^-4 to 2^-2             3      5    40\n"
                            "\n2 combinations, at most 8 runs\n"),
            std::string::npos)
      << result.out;
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_F(SweepProgram, NamesMistakes) {
  struct Mistake {
    Words arguments;
    std::string named;
  };
  std::string plan = write("plan.json", R"({"vary": ["depth=1|2"]})");
  std::string out = folder_ / "none";
  for (const auto& [words, named] :
       {Mistake{{"sweep", "--vary", "depth=1|2", "--train", text_}, "--out"},
        {{"sweep", "--vary", "dpth=1", "--out", out, "--train", text_}, "depth?"},
        {{"sweep", "--vary", "depth", "--out", out}, "KEY=VALUE"},
        {{"sweep", "--ladder", "4:1", "--out", out}, "ladder: expected"},
        {{"sweep", "--jobs", "0", "--out", out}, "--jobs"},
        {{"sweep", "--out", out}, "train: expected a text"},
        {{"sweep", "--sweep", plan, "--set", "depth=3", "--out", out}, "--vary depth=VALUE"},
        {{"sweep", "--sweep", plan, "--config", plan, "--out", out}, "--config"},
        {{"sweep", "--sweep", plan, "--figure-by", "width", "--out", out}, "'width'"},
        {{"sweep", "--sweep", plan, "--curves-by", "width", "--out", out}, "'width'"},
        {{"sweep", "--sweep", plan, "--ladder-figure-by", "width", "--out", out}, "'width'"},
        {{"sweep", "--sweep", plan, "--test", out, "--out", out}, "--test"},
        {{"sweep", "--sweep", plan, "--ladder-steps", "5", "--out", out}, "expected a ladder"},
        {{"sweep", "--vary", "depth=1", "--vary", "width=8,depth=2", "--out", out},
         "'depth' twice"},
        {{"sweep", "--sweep", plan, "--residual-figure", "f.svg", "--out", out}, "'context'"},
        {{"sweep", "--sweep", plan, "--figure", out + "/f.svg", "--out", out}, out + "/f.svg"},
        {{"sweep", "--sweep", plan, "--curves", out + "/f.svg", "--out", out}, out + "/f.svg"},
        {{"sweep", "--sweep", plan, "--table", folder_, "--out", out}, folder_.string()},
        {{"sweep", "--sweep", plan, "--train", text_, "--out", text_},
         "sigma1: " + text_ + ": cannot be made"}}) {
    ProgramResult result = run_program(words);
    EXPECT_EQ(result.exit_code, 2) << testing::PrintToString(words);
    EXPECT_NE(result.err.find(named), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(out));
  }
}

}  // namespace
}  // namespace sigma1
