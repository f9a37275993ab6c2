// The factors are copied from here into other people's code, so their digits and the keys that
// scripts read must not drift.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/cli/run_program.h"

namespace sigma1 {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

TEST(Derive, PaperConstants) {
  const std::tuple<const char*, double, double> cases[] = {
      {"gelu", 1.701, 1.481},          {"tanh", 1.593, 1.467},   {"sigmoid", 4.802, 4.722},
      {"relu", 1.7129, 1.4142},        {"silu", 1.7872, 1.6233}, {"softplus", 1.919, 1.846},
      {"x*sigmoid(x)", 1.7872, 1.6233}};
  for (const auto& [expression, alpha, beta] : cases) {
    json result = json_from({"derive", expression});
    EXPECT_NEAR(result.at("alpha"), alpha, 1e-3) << expression;
    EXPECT_NEAR(result.at("beta"), beta, 1e-3) << expression;
    EXPECT_EQ(result.at("expression"), expression);
  }
}

TEST(Derive, CriterionAndSigmaCount) {
  json rms = json_from({"derive", "relu", "--criterion", "rms", "--sigma", "2^-1"});
  EXPECT_EQ(rms.at("criterion"), "rms");
  EXPECT_EQ(rms.at("sigma"), 0.5);
  EXPECT_NEAR(rms.at("alpha"), 2 * std::sqrt(2), 1e-9);
  EXPECT_NEAR(rms.at("beta"), std::sqrt(2), 1e-9);
  EXPECT_NEAR(rms.at("rms"), std::sqrt(0.125), 1e-9);
  EXPECT_NEAR(rms.at("mean"), 0.5 * 0.3989423, 1e-6);
  EXPECT_NEAR(rms.at("std"), 0.5 * 0.5838194, 1e-6);
}

TEST(Derive, ExpressionMayStartWithAMinus) {
  for (const Words& words : {Words{"derive", "-x^2"}, Words{"derive", "--criterion", "std", "-x^2"},
                             Words{"derive", "--", "-x^2"}}) {
    EXPECT_NEAR(json_from(words).value("mean", 0.0), -1, 1e-9) << testing::PrintToString(words);
  }
  EXPECT_NEAR(json_from({"derive", "--x"}).at("alpha"), 1, 1e-9);
  EXPECT_NEAR(json_from({"derive", "-(x)"}).at("alpha"), 1, 1e-9);
  EXPECT_NEAR(json_from({"derive", "-exp(x)"}).at("mean"), -std::exp(0.5), 1e-9);
}

TEST(Derive, TableHasFourDigits) {
  ProgramResult result = run_program({"derive", "gelu"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out,
            " alpha    beta    mean     std     rms\n"
            "1.7009  1.4811  0.2821  0.5879  0.6521\n");
  EXPECT_NE(run_program({"derive", "1e-7*x"}).out.find("1.0000e-07"), std::string::npos);
}

TEST(Derive, MistakesAreOneLine) {
  const std::pair<Words, Words> mistakes[] = {
      {{}, {"expected an expression"}},
      {{"x*sigmod(x)"}, {"sigmod", "column 3", "did you mean sigmoid?"}},
      {{""}, {"''", "column 1"}},
      {{"x", "+", "1"}, {"one expression", "'+'", "quote"}},
      {{"x", "--nope"}, {"--nope"}},
      {{"log(x)"}, {"not a number"}},
      {{"exp(x^2)"}, {"does not exist under N(0, 1^2)"}},
      {{"3"}, {"zero"}},
      {{"x", "--criterion", "mean"}, {"criterion", "std or rms", "'mean'"}},
      {{"x", "--sigma", "0"}, {"--sigma", "'0'"}},
      {{"x", "--sigma", "-1"}, {"--sigma", "'-1'"}},
      {{"x", "--sigma", "wide"}, {"--sigma", "'wide'"}},
      {{std::string(100'000, '(')}, {"10000"}},
      {{std::string(1'000, '(')}, {"200"}},
  };
  for (auto [arguments, named] : mistakes) {
    SCOPED_TRACE(testing::PrintToString(named));
    arguments.insert(arguments.begin(), "derive");
    ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(result.err.starts_with("sigma1: ")) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    for (const std::string& word : named) {
      EXPECT_NE(result.err.find(word), std::string::npos) << result.err << "lacks " << word;
    }
  }
}

TEST(Derive, HelpShowsExamplesAndEveryFunction) {
  ProgramResult result = run_program({"derive", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* word : {"Examples:", "sigma1 derive gelu", "--criterion", "softplus", "max"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace sigma1
