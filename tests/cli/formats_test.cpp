// Programs read this list, so its keys, types and values are a promise. The values come from the
// standards (IEEE 754, OCP FP8) and the paper's Table A.1, not from our own arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/cli/run_program.h"

namespace sigma1 {
namespace {

using nlohmann::json;

const std::set<std::string> kNames{"fp32",         "tf32",     "bf16",         "fp16",
                                   "fp8_e5m2fnuz", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e4m3",
                                   "fp6_e3m2",     "fp6_e2m3", "fp4_e2m1",     "int8"};

TEST(Formats, ListsEveryNamedFormatOnce) {
  json list = json_from({"formats"});
  std::set<std::string> names;
  for (const json& format : list) names.insert(format.at("name"));
  EXPECT_EQ(names, kNames);
  EXPECT_EQ(list.size(), kNames.size());
}

TEST(Formats, KeysHaveTheirTypes) {
  for (const json& format : json_from({"formats"})) {
    SCOPED_TRACE(format.dump());
    EXPECT_TRUE(format.at("name").is_string());
    for (const char* key : {"exponent_bits", "mantissa_bits", "bias", "max_exponent",
                            "min_exponent", "finite_values"}) {
      EXPECT_TRUE(format.at(key).is_number_integer()) << key;
    }
    for (const char* key : {"max", "min_normal", "min_subnormal"}) {
      EXPECT_TRUE(format.at(key).is_number()) << key;
    }
    for (const char* key : {"infinity", "nan"}) {
      EXPECT_TRUE(format.at(key).is_boolean()) << key;
    }
  }
}

struct Limits {
  const char* name;
  int exponent_bits, mantissa_bits, bias, max_exponent, min_exponent;
  double max, min_normal, min_subnormal;
  unsigned finite_values;
  bool infinity, nan;
};

TEST(Formats, LimitsAreThoseOfTheStandards) {
  const Limits cases[] = {
      {"fp8_e4m3", 4, 3, 7, 8, -6, 448, 0x1p-6, 0x1p-9, 253, false, true},
      {"fp8_e4m3fnuz", 4, 3, 8, 7, -7, 240, 0x1p-7, 0x1p-10, 255, false, true},
      {"fp8_e5m2", 5, 2, 15, 15, -14, 57344, 0x1p-14, 0x1p-16, 247, true, true},
      {"fp16", 5, 10, 15, 15, -14, 65504, 0x1p-14, 0x1p-24, 63487, true, true},
      {"fp32", 8, 23, 127, 127, -126, 0x1.fffffep127, 0x1p-126, 0x1p-149, 4278190079, true, true},
      {"fp4_e2m1", 2, 1, 1, 2, 0, 6, 1, 0.5, 15, false, false},
      {"int8", 0, 7, 0, 6, 0, 127, 1, 1, 256, false, false},
      {"e3m4", 3, 4, 3, 3, -2, 15.5, 0.25, 0x1p-6, 223, true, true},
  };
  for (const Limits& want : cases) {
    SCOPED_TRACE(want.name);
    json list = json_from({"formats", want.name});
    ASSERT_EQ(list.size(), 1U);
    const json& got = list[0];
    EXPECT_EQ(got.at("name"), want.name);
    EXPECT_EQ(got.at("exponent_bits"), want.exponent_bits);
    EXPECT_EQ(got.at("mantissa_bits"), want.mantissa_bits);
    EXPECT_EQ(got.at("bias"), want.bias);
    EXPECT_EQ(got.at("max_exponent"), want.max_exponent);
    EXPECT_EQ(got.at("min_exponent"), want.min_exponent);
    EXPECT_EQ(got.at("max"), want.max);
    EXPECT_EQ(got.at("min_normal"), want.min_normal);
    EXPECT_EQ(got.at("min_subnormal"), want.min_subnormal);
    EXPECT_EQ(got.at("finite_values"), want.finite_values);
    EXPECT_EQ(got.at("infinity"), want.infinity);
    EXPECT_EQ(got.at("nan"), want.nan);
  }
}

TEST(Formats, KeepsTheOrderAskedForAndResolvesAliases) {
  json list = json_from({"formats", "e3m4", "half", "FP8_E4M3"});
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].at("name"), "e3m4");
  EXPECT_EQ(list[1].at("name"), "fp16");
  EXPECT_EQ(list[2].at("name"), "fp8_e4m3");
}

TEST(Formats, TableHasALineForEachFormat) {
  ProgramResult result = run_program({"formats"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  std::vector<std::string> lines = lines_of(result.out);
  EXPECT_EQ(lines.size(), 1 + kNames.size());  // and one of headings
  for (const std::string& name : kNames) {
    auto is_its_line = [&](const std::string& line) { return line.starts_with(name + " "); };
    EXPECT_EQ(std::ranges::count_if(lines, is_its_line), 1) << name;
  }
  EXPECT_EQ(lines_of(run_program({"formats", "e3m4"}).out).size(), 2U);
}

}  // namespace
}  // namespace sigma1
