#include "sigma1/report/diagnosis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

constexpr int64_t kCount = 1000;

// A tensor of 1000 numbers with a standard deviation, of which some are lost.
TensorScale tensor(const std::string& name, TensorRole role, double sigma, int64_t to_zero = 0,
                   int64_t beyond = 0) {
  TensorScale made{.name = name,
                   .role = role,
                   .format = role == TensorRole::gradx ? "e5m2" : "e4m3",
                   .stats = {},
                   .loss = {}};
  made.stats.count = kCount;
  made.stats.sum_squares = sigma * sigma * kCount;
  made.stats.abs_max = static_cast<float>(4 * sigma);
  made.loss.to_zero = to_zero;
  made.loss.beyond = beyond;
  return made;
}

std::string layer(int i, const std::string& rest) { return fmt::format("layer{}/{}", i, rest); }

// Four layers of an activation and its gradient. The gradient is lost in all of them, in three with
// a loss scale, which makes the last activation too large, and in one with unit scaling.
DiagnosisInput example() {
  DiagnosisInput input{.precision = "fp8", .methods = {}, .cost = {}};
  for (const char* method : {"none", "loss-scale=2048", "unit"}) {
    MethodScales scales{method, {}};
    bool none = scales.method == "none", unit = scales.method == "unit";
    for (int i = 0; i < 4; ++i) {
      double sigma = unit ? 1 : std::ldexp(1, none ? -19 : -14);
      bool lost = none || (unit ? i == 2 : i != 0);
      std::string up = layer(i, "ffn/up/linear"), down = layer(i, "ffn/down/linear");
      scales.tensors.push_back(tensor(layer(i, "ffn/relu"), TensorRole::activation, 1, 10,
                                      !none && !unit && i == 3 ? 500 : 0));
      scales.tensors.back().products = {down};
      scales.tensors.push_back(
          tensor(layer(i, "ffn/relu"), TensorRole::gradx, sigma, lost ? 21 + i : 10));
      scales.tensors.back().products = {up, down};
    }
    input.methods.push_back(scales);
  }
  input.cost.product_flops = 10'000'000;
  input.cost.separate = {12, 30'000, 0, 120'000, {}};
  input.cost.folded = {14, 35'000, 20'000, 0, {}};
  input.cost.paper = {
      .by_product_sizes = 0.0022, .scaled_ops = 6, .products = 4, .hidden_size = 128};
  return input;
}

TEST(Diagnosis, CountsWhatEachMethodLosesAndMends) {
  Diagnosis found = diagnose(example());
  ASSERT_EQ(found.methods.size(), 3U);
  std::vector<std::array<int64_t, 4>> counts;
  for (const MethodDiagnosis& each : found.methods) {
    counts.push_back({each.tensors, each.losing, each.mended, each.spoilt});
  }
  EXPECT_EQ(counts,
            (std::vector<std::array<int64_t, 4>>{{8, 4, 0, 0}, {8, 4, 1, 1}, {8, 1, 3, 0}}));
  EXPECT_DOUBLE_EQ(found.methods[1].worst, 0.51);
}

// Ten of 1000 are 1 %, which is not more.
TEST(Diagnosis, TheLimitItselfIsAllowed) {
  DiagnosisInput input{.precision = "fp8", .methods = {}, .cost = {}};
  input.methods = {{"none", {tensor("x", TensorRole::activation, 1, 10)}}};
  EXPECT_EQ(diagnose(input).methods[0].losing, 0);
  input.limit = 0.009;
  EXPECT_EQ(diagnose(input).methods[0].losing, 1);
}

TEST(Diagnosis, LayersWithTheSameProblemAreOneGroup) {
  Diagnosis found = diagnose(example());
  const std::vector<TensorGroup>& groups = found.methods[0].groups;
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].name, "layer0…layer3/ffn/relu");
  EXPECT_EQ(groups[0].tensors.size(), 4U);
  EXPECT_DOUBLE_EQ(groups[0].lost, 0.024);
  EXPECT_EQ(groups[0].why, "too small: σ = 2^-19, the format's smallest is 2^-16");
  const std::vector<TensorGroup>& scaled = found.methods[1].groups;
  ASSERT_EQ(scaled.size(), 2U);
  EXPECT_EQ(scaled[0].name, "layer3/ffn/relu");
  EXPECT_EQ(scaled[0].why, "too large: up to 2^2, the format's largest is 448");
  EXPECT_EQ(scaled[1].name, "layer1…layer3/ffn/relu");
}

TEST(Diagnosis, GroupsKeepApartWhatIsNotALayersNumber) {
  DiagnosisInput input{.precision = "fp8", .methods = {}, .cost = {}};
  MethodScales scales{"none", {}};
  for (const char* name : {"layer0/matmul", "layer0/matmul_2", "layer10/matmul", "layer2/matmul",
                           "head", "layer/matmul"}) {
    scales.tensors.push_back(tensor(name, TensorRole::weight, 1, 500));
  }
  input.methods = {scales};
  Diagnosis found = diagnose(input);
  std::set<std::string> names;
  for (const TensorGroup& group : found.methods[0].groups) names.insert(group.name);
  EXPECT_EQ(names, (std::set<std::string>{"head", "layer/matmul", "layer0/matmul_2",
                                          "layer{0,2,10}/matmul"}));
}

TEST(Diagnosis, WhatIsNotFiniteComesFirst) {
  DiagnosisInput input{.precision = "fp8", .methods = {}, .cost = {}};
  TensorScale broken = tensor("b", TensorRole::activation, 1);
  broken.stats.nonfinite = 1;
  input.methods = {{"none", {tensor("a", TensorRole::activation, 1, 900), broken}}};
  const MethodDiagnosis found = diagnose(input).methods[0];
  EXPECT_EQ(found.losing, 2);
  EXPECT_EQ(found.groups[0].name, "b");
  EXPECT_EQ(found.groups[0].reason, LossReason::not_finite);
}

TEST(Diagnosis, RangesOfStandardDeviations) {
  DiagnosisInput input{.precision = "fp8", .methods = {}, .cost = {}};
  using enum TensorRole;
  input.methods = {{"none",
                    {tensor("a", gradx, 0.25), tensor("b", gradx, 1), tensor("c", gradx, 0x1p-8),
                     tensor("d", gradx, 0x1p-4), tensor("e", gradx, 0), tensor("f", weight, 3)}}};
  const std::vector<SigmaRange> ranges = diagnose(input).methods[0].ranges;
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].role, weight);
  EXPECT_DOUBLE_EQ(ranges[0].median, 3);
  EXPECT_EQ(ranges[1].tensors, 4);
  EXPECT_DOUBLE_EQ(ranges[1].min, 0x1p-8);
  EXPECT_DOUBLE_EQ(ranges[1].median, 0x1p-3);
  EXPECT_DOUBLE_EQ(ranges[1].max, 1);
}

TEST(Diagnosis, KeepsTheProductsOfWhatUnitScalingLoses) {
  Diagnosis found = diagnose(example());
  EXPECT_EQ(found.setting(),
            "--set matmul-overrides=\"layer2/ffn/up/linear=fp16,layer2/ffn/down/linear=fp16\"");
  DiagnosisInput stored = example();  // 16 bits already: nothing to gain
  for (TensorScale& each : stored.methods[2].tensors) each.format = "fp16";
  EXPECT_EQ(diagnose(stored).setting(), "");
}

TEST(Diagnosis, Verdict) {
  EXPECT_EQ(
      diagnose(example()).verdict(),
      "Regular training in FP8 would lose more than 1 % of the numbers of 4 of 8 tensors: 4 "
      "activation gradients too small; the worst loses 2.4 %. Loss scaling by 2048 mends 1 of "
      "the 4 but loses 1 other: 4 of 8 tensors remain; the worst loses 51 %. Unit scaling "
      "mends 3 of the 4: 1 of 8 tensors remains; the worst loses 2.3 %.");
}

TEST(Diagnosis, AMethodMayMendAllOrNothing) {
  DiagnosisInput input = example();
  input.methods[1] = input.methods[0];
  input.methods[1].method = "auto-loss-scale";
  for (TensorScale& each : input.methods[2].tensors) each.loss = {.to_zero = 1};
  std::string verdict = diagnose(input).verdict();
  for (const char* part : {"Automatic loss scaling mends none of the 4: 4 of 8 tensors remain; ",
                           "Unit scaling mends all 4: none of 8 tensors remains; the worst loses "
                           "0.1 %."}) {
    EXPECT_NE(verdict.find(part), std::string::npos) << verdict;
  }
}

// σ fits the format; it is the spread that does not.
TEST(Diagnosis, ASpreadWiderThanTheFormat) {
  DiagnosisInput input{.precision = "fp8", .methods = {}, .cost = {}};
  TensorScale wide = tensor("x", TensorRole::activation, 1, 300);
  wide.stats.abs_min = 0x1p-30F;
  input.methods = {{"unit", {wide}}};
  EXPECT_EQ(diagnose(input).methods[0].groups[0].why,
            "partly too small: down to 2^-30, the format's smallest is 2^-9");
}

TEST(Diagnosis, AModelThatLosesNothing) {
  DiagnosisInput input{.precision = "fp8", .methods = {}, .cost = {}};
  for (const char* method : {"none", "unit"}) {
    input.methods.push_back({method, {tensor("layer0/x", TensorRole::activation, 1)}});
  }
  Diagnosis found = diagnose(input);
  EXPECT_EQ(found.verdict(),
            "Regular training in FP8 would lose more than 1 % of the numbers of none of 1 tensor; "
            "nothing is lost. Unit scaling: none of 1 tensor; nothing is lost.");
  EXPECT_EQ(found.setting(), "");
  std::string text = found.to_text();
  EXPECT_NE(text.find("16 bits under unit scaling: none.\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("too small"), std::string::npos);
}

TEST(Diagnosis, TextHasATableForEachMethod) {
  std::string text = diagnose(example()).to_text();
  for (const char* part :
       {"Regular training: 4 of 8 tensors lose more than 1 %.\n",
        "Unit scaling: 1 of 8 tensors loses more than 1 %.\n",
        "layer0…layer3/ffn/relu (4 tensors)  gradx  e5m2    2^-19     2.4  too small: σ = 2^-19",
        "gradx       loss-scale=2048        4       2^-14     2^-14      2^-14\n",
        "whose matrix products take 0.01 GFLOP",
        "as ops of their own                12                  0.03            0.3",
        "0.22 % by the sizes of the products, and 0.59 % for 1.5 scaled ops a product at width"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Diagnosis, TextShowsTheWorstEight) {
  DiagnosisInput input{.precision = "fp8", .methods = {}, .cost = {}};
  MethodScales scales{"none", {}};
  for (int i = 0; i < 10; ++i) {
    std::string name(1, static_cast<char>('a' + i));
    scales.tensors.push_back(tensor(name + "/only", TensorRole::weight, 1, 100 + i));
  }
  input.methods = {scales};
  std::string text = diagnose(input).to_text();
  EXPECT_NE(text.find("and 2 more lines of 2 tensors\n"), std::string::npos) << text;
  EXPECT_NE(text.find("j/only"), std::string::npos);
  EXPECT_EQ(text.find("b/only"), std::string::npos);
}

TEST(Diagnosis, JsonSaysTheSame) {
  Diagnosis found = diagnose(example());
  auto json = nlohmann::json::parse(found.to_json());
  EXPECT_EQ(json["verdict"], found.verdict());
  EXPECT_EQ(json["setting"], found.setting());
  EXPECT_EQ(json["methods"][1]["groups"][1]["tensors"].size(), 3U);
  EXPECT_EQ(json["methods"][2]["losing"], 1);
  EXPECT_EQ(json["methods"][0]["sigma"][1]["median"], 0x1p-19);
  EXPECT_EQ(json["cost"]["folded"]["bytes"], 0);
  EXPECT_EQ(json["cost"]["separate"]["share_of_products"], 0.003);
  EXPECT_EQ(json["cost"]["paper"]["ops_per_matmul"], 1.5);
}

}  // namespace
}  // namespace sigma1
