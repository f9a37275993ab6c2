// The numerics have tests of their own; these hold what lies between them and a person: how numbers
// are written, where they come from, which option reaches which setting, and the JSON.
#include <gtest/gtest.h>

#include <set>

#include "tests/cli/run_program.h"

namespace sigma1 {
namespace {

using nlohmann::json;

struct Row {
  json input;
  std::string code;
  json value;
};

void expect_rows(const json& list, const std::vector<Row>& rows) {
  ASSERT_TRUE(list.is_array());
  ASSERT_EQ(list.size(), rows.size()) << list;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(list[i].at("input"), rows[i].input) << list[i];
    EXPECT_EQ(list[i].at("code"), rows[i].code) << list[i];
    EXPECT_EQ(list[i].at("value"), rows[i].value) << list[i];
  }
}

TEST(Quantize, GivesKnownCodes) {
  expect_rows(json_from({"quantize", "--format", "fp8_e4m3", "0.1", "500", "-inf", "-2^-9", "nan"}),
              {{0.1, "0x1d", 0.1015625},
               {500, "0x7e", 448},
               {"-inf", "0xfe", -448},
               {-0x1p-9, "0x81", -0x1p-9},
               {"nan", "0x7f", "nan"}});
}

TEST(Quantize, CodeHasAsManyDigitsAsTheFormatNeeds) {
  const std::pair<const char*, const char*> cases[] = {
      {"fp4_e2m1", "0x2"}, {"fp6_e2m3", "0x08"}, {"fp16", "0x3c00"}, {"fp32", "0x3f800000"}};
  for (const auto& [format, code] : cases) {
    expect_rows(json_from({"quantize", "-f", format, "1"}), {{1, code, 1}});
  }
}

TEST(Quantize, TakesNegativeNumbersForNumbers) {
  expect_rows(json_from({"quantize", "-f", "fp8_e4m3", "-1", "-.5", "-1e3", "-1/3"}),
              {{-1, "0xb8", -1},
               {-0.5, "0xb0", -0.5},
               {-1000, "0xfe", -448},
               {-1.0 / 3, "0xab", -0.34375}});
}

// An even power is where a sign that is bound to the base would vanish.
TEST(Quantize, SignStandsBeforeThePower) {
  expect_rows(json_from({"quantize", "-f", "fp8_e4m3", "-2^-8"}), {{-0x1p-8, "0x82", -0x1p-8}});
}

TEST(Quantize, ReadsStandardInputWithoutArguments) {
  std::vector<Row> rows{{1, "0x38", 1}, {-2, "0xc0", -2}, {0.25, "0x28", 0.25}};
  expect_rows(json_from({"quantize", "-f", "fp8_e4m3"}, "1 -2\n\n\t2^-2"), rows);
  expect_rows(json_from({"quantize", "-f", "fp8_e4m3"}), {});
  expect_rows(json_from({"quantize", "-f", "fp8_e4m3", "1"}, "not read"), {rows[0]});
}

TEST(Quantize, RoundsAsTold) {
  std::vector<std::string> to_zero{"quantize",    "-f",  "fp8_e4m3", "--rounding",
                                   "toward-zero", "0.1", "-0.1"};
  expect_rows(json_from(to_zero), {{0.1, "0x1c", 0.09375}, {-0.1, "0x9c", -0.09375}});
}

TEST(Quantize, StochasticRoundingFollowsTheSeed) {
  std::string input;
  for (int i = 0; i < 100; ++i) input += "0.1\n";
  auto with_seed = [&](const char* seed) {
    return json_from({"quantize", "-f", "fp8_e4m3", "--rounding", "stochastic", "--seed", seed},
                     input);
  };
  json first = with_seed("1");
  EXPECT_EQ(first, with_seed("1"));
  EXPECT_NE(first, with_seed("2"));
  std::multiset<double> values;
  for (const json& row : first) values.insert(row.at("value").get<double>());
  size_t below = values.count(0.09375), above = values.count(0.1015625);
  EXPECT_EQ(below + above, 100U);
  // 0.1 lies at 4/5 of the gap; six standard deviations of a fair draw are 24.
  EXPECT_NEAR(static_cast<double>(above), 80, 24);
  EXPECT_GT(below, 0U);
}

TEST(Quantize, OverflowsAsTold) {
  expect_rows(json_from({"quantize", "-f", "fp8_e5m2", "--overflow", "infinity", "1e6", "-1e6"}),
              {{1e6, "0x7c", "inf"}, {-1e6, "0xfc", "-inf"}});
  expect_rows(json_from({"quantize", "-f", "fp8_e4m3", "--overflow", "nan", "500", "448"}),
              {{500, "0x7f", "nan"}, {448, "0x7e", 448}});
  expect_rows(json_from({"quantize", "-f", "fp8_e5m2", "--overflow", "saturate", "1e6"}),
              {{1e6, "0x7b", 57344}});
}

TEST(Quantize, ScaleIsMultipliedInAndDividedOut) {
  json list =
      json_from({"quantize", "-f", "int8", "--scale", "127/180", "60", "-180", "1000", "-1000"});
  // 60 lands on 42.3; two's complement reaches one further down than up.
  const std::pair<const char*, double> cases[] = {
      {"0x2a", 42}, {"0x81", -127}, {"0x7f", 127}, {"0x80", -128}};
  ASSERT_EQ(list.size(), std::size(cases));
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].at("code"), cases[i].first);
    EXPECT_NEAR(list[i].at("value"), cases[i].second * 180 / 127, 1e-5);
  }
}

TEST(Quantize, TableHasALineForEachValue) {
  ProgramResult result = run_program({"quantize", "-f", "fp8_e4m3", "0.1", "500"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 3U);
  for (const char* cell : {"0.1", "0x1d", "0.1015625", "0.0156"}) {
    EXPECT_NE(lines[1].find(cell), std::string::npos) << lines[1];
  }
  for (const char* cell : {"500", "0x7e", "448", "0.104"}) {
    EXPECT_NE(lines[2].find(cell), std::string::npos) << lines[2];
  }
}

}  // namespace
}  // namespace sigma1
