// `sigma1 inspect` must show why each factor is what it is: factors and cut edges of every node.
#include <gtest/gtest.h>

#include <algorithm>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace sigma1 {
namespace {

nlohmann::json node_named(const nlohmann::json& graph, const std::string& name) {
  for (const auto& node : graph.at("nodes")) {
    if (node.at("name") == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return {};
}

nlohmann::json inspect(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"inspect"});
  arguments.push_back("--json");
  auto run = run_program(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return nlohmann::json::parse(run.out);
}

TEST(Inspect, FfnOfTheCodeFigure) {
  auto graph = inspect({"ffn", "--width", "64", "--hidden", "256", "--batch", "2", "--time", "8"});
  auto up = node_named(graph, "ffn/up/matmul");
  double together = std::pow(64.0 * 256, -0.25);
  EXPECT_EQ(up.at("op"), "matmul");
  EXPECT_EQ(up.at("inputs"), (std::vector<std::string>{"norm/layer_norm", "ffn/up/weight"}));
  EXPECT_EQ(up.at("shape"), (std::vector<int>{16, 256}));
  EXPECT_NEAR(up.at("alpha"), together, 1e-12);
  EXPECT_NEAR(up.at("beta").at(0), together, 1e-12);
  EXPECT_NEAR(up.at("beta").at(1), 0.25, 1e-12);
  EXPECT_EQ(up.at("cut"), (std::vector<bool>{false, true}));
}

TEST(Inspect, StopsAfterAPass) {
  auto plain = inspect({"ffn", "--after", "plain"});
  EXPECT_EQ(node_named(plain, "ffn/up/matmul").at("alpha"), 1);
  auto ideal = inspect({"ffn", "--after", "ideal_scales"});
  auto matmul = node_named(ideal, "ffn/up/matmul");
  EXPECT_NE(matmul.at("alpha"), matmul.at("beta").at(0));
}

TEST(Inspect, EveryModelUnderBothSchemes) {
  for (const char* model : {"mlp", "ffn", "transformer"}) {
    for (const char* scheme : {"paper", "exact"}) {
      EXPECT_GT(inspect({model, "--scheme", scheme}).at("nodes").size(), 5u) << model;
    }
  }
}

TEST(Inspect, WritesDotAndTimes) {
  std::string path = testing::TempDir() + "/sigma1_inspect_test.dot";
  auto run = run_program({"inspect", "transformer", "--dot", path, "--time-passes"});
  EXPECT_NE(run.out.find("constrain"), std::string::npos) << run.err;
  EXPECT_GT(std::filesystem::file_size(path), 1000u);
  std::filesystem::remove(path);
  nlohmann::json passes = json_from({"inspect", "transformer", "--time-passes"});
  ASSERT_FALSE(passes.empty());
  EXPECT_GE(passes[0]["milliseconds"], 0);
}

TEST(Inspect, ListsWhatRanksSendEachOther) {
  nlohmann::json one = json_from({"inspect", "gpt", "--gradient-repeats", "4"});
  EXPECT_FALSE(one.contains("collectives"));
  nlohmann::json four = json_from({"inspect", "gpt", "--ranks", "4", "--reduce", "bf16"});
  ASSERT_EQ(four["collectives"].size(), 1U);
  EXPECT_EQ(four["collectives"][0]["op"], "all_reduce");
  auto numbers = four["collectives"][0]["numbers"].get<int64_t>();
  EXPECT_EQ(four["collectives"][0]["bytes"], 2 * numbers);
  EXPECT_EQ(four["nodes"], one["nodes"]) << "ranks count as accumulation does";
  nlohmann::json shared =
      json_from({"inspect", "gpt", "--ranks", "4", "--shard", "optimiser", "--gather", "stored"});
  ASSERT_EQ(shared["collectives"].size(), 2U);
  EXPECT_EQ(shared["collectives"][0]["op"], "reduce_scatter");
  EXPECT_EQ(shared["collectives"][1]["op"], "all_gather");
  EXPECT_EQ(shared["collectives"][1]["bytes"], 2 * numbers) << "weights in fp16";
  nlohmann::json narrow = json_from({"inspect", "gpt", "--ranks", "4", "--shard", "optimiser"});
  EXPECT_EQ(narrow["collectives"][0], shared["collectives"][0]);
  constexpr int64_t kOfLayers = 4 * 12 * 128 * 128;  // numbers of their products' weights
  EXPECT_EQ(narrow["collectives"][1]["bytes"], 2 * numbers - kOfLayers) << "these in 8 bits";
}

TEST(Inspect, MistakesAreOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"inspect", "transfromer"}, "did you mean transformer"},
      {{"inspect", "ffn", "--after", "nothing"}, "nothing"},
      {{"inspect", "ffn", "--scheme", "other"}, "other"},
      {{"inspect", "ffn", "--tau", "2"}, "2"},
      {{"inspect", "ffn", "--residual", "none"}, "none"},
      {{"inspect", "transformer", "--heads", "5"}, "5"},
      {{"inspect", "mlp", "--width", "0"}, "width"},
      {{"inspect", "mlp", "--mean", "middle"}, "middle"},
      {{"inspect", "gpt", "--ranks", "0"}, "0"},
      {{"inspect", "gpt", "--ranks", "2", "--reduce", "e4m3"}, "e4m3"},
      {{"inspect", "gpt", "--ranks", "2", "--shard", "all"}, "all"},
  };
  for (const auto& [arguments, named] : mistakes) {
    auto run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_EQ(std::ranges::count(run.err, '\n'), 1) << run.err;
    EXPECT_NE(run.err.find(named), std::string::npos) << run.err;
  }
}

}  // namespace
}  // namespace sigma1
