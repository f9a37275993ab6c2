#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/run_program.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void expect_one_line(const Words& arguments, const std::string& named) {
  ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.exit_code, 2) << testing::PrintToString(arguments);
  EXPECT_EQ(result.out, "") << testing::PrintToString(arguments);
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  EXPECT_NE(result.err.find(named), std::string::npos) << result.err;
}

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

TEST(Bench, ProfileIsJsonToo) {
  nlohmann::json profile =
      json_from({"bench", "cpu", "--depth", "1", "--vocabulary", "50", "--profile", "unit fp8"});
  ASSERT_GT(profile["ops"].size(), 3U);
  for (const auto& row : profile["ops"]) {
    EXPECT_TRUE(row["op"].is_string()) << row;
    EXPECT_GE(row["nodes"], 1) << row;
    EXPECT_GE(row["ms"], 0) << row;
  }
  EXPECT_GE(profile["arena"], profile["lower_bound"]);
}

TEST(Bench, MistakesAreOneLine) {
  for (const Words& words :
       {Words{"--profile", "fp7", "--vocabulary", "50"}, Words{"--rounds", "0"},
        Words{"--depth", "0", "--vocabulary", "50"}, Words{"--vocabulary", "1"},
        Words{"--threads", "-1"}, Words{"--context", "x", "--vocabulary", "50"}}) {
    expect_one_line(with({"bench", "cpu"}, words), "sigma1: ");
  }
}

// What it measures on a GPU, here on the processor: only the times differ.
class BenchCuda : public TemporaryFolderTest {
 protected:
  const Words small_{"bench",        "cuda",
                     "--device",     "cpu",
                     "--depth",      "1",
                     "--vocabulary", "50",
                     "--only",       "fp16,unit fp16,unit fp32",
                     "--warmup",     "0",
                     "--steps",      "1",
                     "--rounds",     "2"};
  // Rows of another model or that failed must not count.
  static constexpr const char* kPeer = R"([
      {"context": "attention", "variant": "a", "precision": "fp16", "mode": "slow", "ms": 9},
      {"context": "attention", "variant": "a", "precision": "bf16", "mode": "fast", "ms": 2},
      {"context": "attention", "variant": "a", "precision": "tf32", "mode": "m", "ms": 3},
      {"context": "attention", "variant": "b", "precision": "fp16", "mode": "light", "ms": 1,
       "same_model": false},
      {"context": "attention", "variant": "a", "precision": "fp32", "mode": "m", "failed": "x"},
      {"context": "conv", "variant": "a", "precision": "fp16", "mode": "m", "ms": 0.5}])";
};

TEST_F(BenchCuda, ComparesSettingsAndThePeersBest) {
  nlohmann::json result = json_from(with(small_, {"--peer", write("peer.json", kPeer)}));
  ASSERT_EQ(result["steps"].size(), 3U);
  for (const auto& step : result["steps"]) {
    double ms = step["ms"];
    EXPECT_GE(ms, step["least_ms"]);
    EXPECT_LE(ms, step["most_ms"]);
    EXPECT_NEAR(step["tokens_per_s"].get<double>() * ms, 2048e3, 1);
  }
  std::vector<std::pair<std::string, double>> named;
  for (const auto& row : result["ratios"]) named.emplace_back(row["name"], row["floor_ms"]);
  ASSERT_EQ(named.size(), 8U) << result["ratios"];
  EXPECT_EQ(named[0].first, "unit fp16 / fp16");
  EXPECT_EQ(named[1].first, "unit fp16 / unit fp32");
  for (size_t i : {2, 3, 4}) {
    EXPECT_TRUE(named[i].first.ends_with(" / its matrix products")) << named[i].first;
    EXPECT_GT(named[i].second, 0);
  }
  EXPECT_EQ(named[5], (std::pair<std::string, double>("unit fp32 / PyTorch tf32, a, m", 3)));
  EXPECT_EQ(named[6], (std::pair<std::string, double>("unit fp16 / PyTorch bf16, a, fast", 2)));
  EXPECT_EQ(named[7], (std::pair<std::string, double>(
                          "unit fp16 / PyTorch fp16, b (a lighter model), light", 1)));
  EXPECT_EQ(result["peer"].size(), 5U);
}

TEST_F(BenchCuda, LeavesTheFloorOutWhereAsked) {
  nlohmann::json result = json_from(with(small_, {"--no-floor"}));
  EXPECT_EQ(result["steps"].size(), 3U);
  ASSERT_EQ(result["ratios"].size(), 2U) << result["ratios"];
  EXPECT_EQ(result["ratios"][0]["name"], "unit fp16 / fp16");
  EXPECT_EQ(result["ratios"][1]["name"], "unit fp16 / unit fp32");
}

TEST_F(BenchCuda, TimesAnyModel) {
  Words gpt{"--set", "model=gpt", "--set", "width=32", "--set", "time=64", "--set", "batch=1"};
  nlohmann::json result = json_from(with(small_, gpt));
  for (const auto& step : result["steps"]) {
    double ms = step["ms"];
    EXPECT_NEAR(step["tokens_per_s"].get<double>() * ms, 64e3, 1);
  }
}

// The methods that are compared on it, and PyTorch's without a mask as what it is.
TEST_F(BenchCuda, TimesBertBesideItsPeer) {
  Words bert{"bench",        "cuda",
             "--device",     "cpu",
             "--vocabulary", "60",
             "--warmup",     "0",
             "--steps",      "1",
             "--rounds",     "1",
             "--only",       "fp16,unit fp16,unit fp8,per-tensor fp8"};
  for (const char* setting : {"model=bert", "depth=1", "width=16", "ffn=32", "time=32", "batch=2"})
    bert = with(bert, {"--set", setting});
  std::string peer = write("bert.json", R"([
      {"context": "bert", "variant": "mask", "precision": "bf16", "mode": "m", "ms": 2,
       "gigabytes": 7.5},
      {"context": "bert", "variant": "no-mask", "precision": "bf16", "mode": "m", "ms": 1,
       "same_model": false}])");
  nlohmann::json result = json_from(with(bert, {"--peer", peer}));
  ASSERT_EQ(result["steps"].size(), 4U);
  for (const auto& step : result["steps"]) {
    EXPECT_NEAR(step["tokens_per_s"].get<double>() * step["ms"].get<double>(), 64e3, 1);
    EXPECT_GT(step["gigabytes"], 0);
  }
  EXPECT_EQ(result["peer"][0]["gigabytes"], 7.5);
  std::vector<std::string> beside;
  for (const auto& row : result["ratios"]) {
    if (std::string name = row["name"]; name.find("PyTorch") != std::string::npos)
      beside.push_back(name);
  }
  EXPECT_EQ(beside, (Words{"unit fp16 / PyTorch bf16, mask, m", "unit fp8 / PyTorch bf16, mask, m",
                           "unit fp16 / PyTorch bf16, no-mask (a lighter model), m",
                           "unit fp8 / PyTorch bf16, no-mask (a lighter model), m"}));
}

TEST_F(BenchCuda, MistakesAreOneLine) {
  for (const auto& [words, named] :
       {std::pair<Words, std::string>{{"--only", "fp16,fp7"}, "'fp7'"},
        {{"--context", "x"}, "attention, conv or rnn"},
        {{"--set", "widht=3"}, "width"},
        {{"--steps", "0"}, "--steps"},
        {{"--peer", folder_ / "none.json"}, "none.json"},
        {{"--peer", write("a.json", "{")}, "a.json: expected a JSON list"},
        {{"--peer", write("b.json", R"([{"context": "conv"}])")}, "b.json: expected rows of"},
        {{"--peer", write("c.json", R"({"error": "no GPU"})")}, "--peer: no GPU"},
        {{"--peer", "--peer-script", folder_ / "none.py"}, "none.py was not found"}}) {
    expect_one_line(with({"bench", "cuda", "--device", "cpu"}, words), named);
  }
}

// Where a GPU is, there is nothing to complain of.
TEST_F(BenchCuda, WithoutAGpuSaysWhatIsMissing) {
  ProgramResult result =
      run_program({"bench", "cuda", "--only", "fp32", "--depth", "1", "--vocabulary", "50",
                   "--warmup", "0", "--steps", "1", "--rounds", "1"});
  if (result.exit_code == 0) GTEST_SKIP() << "a GPU is here";
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  EXPECT_NE(result.err.find("cuda"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace sigma1
