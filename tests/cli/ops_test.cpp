// `sigma1 ops` lets a user check any scale rule: its three rows must be there and agree.
#include <gtest/gtest.h>

#include <algorithm>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace sigma1 {
namespace {

TEST(Ops, ListsTheCatalogue) {
  auto list = nlohmann::json::parse(run_program({"ops", "--json"}).out);
  std::vector<std::string> names;
  for (const auto& op : list) names.push_back(op.at("name"));
  for (const char* name : {"matmul", "attention", "recurrent_highway", "softmax_xent"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
  EXPECT_EQ(std::ranges::find(names, "relu_grad"), names.end());
  EXPECT_NE(run_program({"ops", "--all"}).out.find("adam_step"), std::string::npos);
}

TEST(Ops, FactorsBesideMeasuredOnes) {
  auto run = run_program({"ops", "matmul", "--shape", "256x128", "128x512", "--json"});
  auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json.at("name"), "matmul");
  EXPECT_NEAR(json.at("ideal").at("alpha"), 1 / std::sqrt(128), 1e-9);
  EXPECT_NEAR(json.at("ideal").at("beta").at(1), 1 / std::sqrt(256), 1e-9);
  EXPECT_NEAR(json.at("constrained").at("alpha"), std::pow(128.0 * 512, -0.25), 1e-9);
  EXPECT_EQ(json.at("constrained").at("alpha"), json.at("constrained").at("beta").at(0));
  EXPECT_EQ(json.at("constrained").at("beta").at(1), json.at("ideal").at("beta").at(1));
  EXPECT_NEAR(json.at("measured").at("alpha"), 1 / std::sqrt(128), 0.03 / std::sqrt(128));
}

// Every op of the list can be looked at with shapes alone.
TEST(Ops, EveryOpHasUsableDefaults) {
  const std::vector<std::vector<std::string>> calls = {
      {"linear", "16x8", "8x4", "4"},
      {"conv1d", "2x9x4", "3x4x8", "8"},
      {"embedding", "16x4", "2x5"},
      {"gather_rows", "2x9x4", "2x3"},
      {"add", "8x4", "8x4", "8x4"},
      {"weighted_add", "8x4", "8x4"},
      {"sum", "8x4"},
      {"mean", "8x4"},
      {"broadcast", "8x4"},
      {"mul", "8x4", "4"},
      {"scale", "8x4"},
      {"identity", "8x4"},
      {"dropout", "80x40"},
      {"gelu", "8x4"},
      {"log", "8x4"},
      {"softmax", "8x4"},
      {"layer_norm", "8x4", "4", "4"},
      {"rms_norm", "8x4"},
      {"attention", "2x6x8", "2x6x8", "2x6x8"},
      {"attention", "2x6x8", "2x6x8", "2x6x8", "2x6"},
      {"attention", "2x6x8", "2x6x8", "2x6x8", "6x8", "2x6"},
      {"recurrent_highway", "2x6x4", "9x2x5", "2x5", "5"},
      {"softmax_xent", "8x4", "8"},
      {"mse", "8x4", "8x4"},
      {"reshape", "8x4"},
      {"transpose", "8x4"},
      {"slice", "8x4"},
      {"unslice", "8x4"},
      {"concat", "8x4", "3x4"},
      {"split", "8x4"},
  };
  for (const auto& call : calls) {
    std::vector<std::string> arguments{"ops", call.front(), "--json", "--shape"};
    arguments.insert(arguments.end(), call.begin() + 1, call.end());
    auto run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 0) << call.front() << ": " << run.err;
  }
}

TEST(Ops, ShapesMayStandInOneWord) {
  auto one = run_program({"ops", "matmul", "--shape", "64x32,32x16", "--json"});
  auto two = run_program({"ops", "matmul", "--shape", "64,32", "--shape", "32,16", "--json"});
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(one.out, two.out);
}

TEST(Ops, ANameAloneShowsItsRule) {
  auto list = nlohmann::json::parse(run_program({"ops", "matmul", "--json"}).out);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].at("name"), "matmul");
}

TEST(Ops, SettingsChangeTheRule) {
  auto alpha = [](const std::vector<std::string>& extra) {
    std::vector<std::string> arguments{"ops", "dropout", "--json", "--shape", "100x100"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return nlohmann::json::parse(run_program(arguments).out).at("ideal").at("alpha").get<double>();
  };
  EXPECT_NEAR(alpha({}), std::sqrt(0.9), 1e-12);
  EXPECT_NEAR(alpha({"--set", "p=0.5"}), std::sqrt(0.5), 1e-12);
}

TEST(Ops, MistakesAreOneLine) {
  const std::vector<std::vector<std::string>> mistakes = {
      {"ops", "matmull", "--shape", "2x3"},
      {"ops", "matmull"},
      {"ops", "--shape", "2x3"},
      {"ops", "matmul", "--shape", "2x3"},
      {"ops", "matmul", "--shape", "2x3", "4x5"},
      {"ops", "matmul", "--shape", "2xq", "4x5"},
      {"ops", "matmul", "--shape", "0x3", "3x5"},
      {"ops", "matmul", "--shape", "100000x100000", "100000x5"},
      {"ops", "dropout", "--shape", "4", "--set", "q=1"},
      {"ops", "dropout", "--shape", "4", "--set", "p=2"},
      {"ops", "dropout", "--shape", "4", "--set", "p=much"},
      {"ops", "dropout", "--shape", "4", "--set", "seed=1.5"},
      {"ops", "matmul", "--shape", "2x3", "3x4", "--set", "transpose_left=maybe"},
      {"ops", "sum", "--shape", "2x3", "--set", "axes=9"},
      {"ops", "scale", "--shape", "4", "--set", "factor=0"},
      {"ops", "relu_grad", "--shape", "4", "4"},
      {"ops", "gelu", "--shape", "4", "--criterion", "max"},
  };
  for (const auto& mistake : mistakes) {
    auto run = run_program(mistake);
    EXPECT_EQ(run.exit_code, 2) << mistake[1] << run.err;
    EXPECT_EQ(std::ranges::count(run.err, '\n'), 1) << run.err;
    EXPECT_TRUE(run.out.empty());
  }
}

}  // namespace
}  // namespace sigma1
