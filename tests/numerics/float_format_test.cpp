#include "sigma1/numerics/float_format.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <set>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

FloatFormat named(std::string_view name) { return find_format(name).format; }

std::string error_of(std::string_view name) {
  try {
    find_format(name);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Table A.1 of the paper, in its order.
TEST(FloatFormat, TableA1) {
  struct Row {
    const char* name;
    int exponent_bits, mantissa_bits, max_exponent, min_exponent;
  };
  const Row rows[] = {
      {"fp32", 8, 23, 127, -126},    {"tf32", 8, 10, 127, -126},      {"bf16", 8, 7, 127, -126},
      {"fp16", 5, 10, 15, -14},      {"fp8_e5m2fnuz", 5, 2, 15, -15}, {"fp8_e5m2", 5, 2, 15, -14},
      {"fp8_e4m3fnuz", 4, 3, 7, -7}, {"fp8_e4m3", 4, 3, 8, -6},
  };
  for (const Row& row : rows) {
    FloatFormat format = named(row.name);
    EXPECT_EQ(format.exponent_bits, row.exponent_bits) << row.name;
    EXPECT_EQ(format.mantissa_bits, row.mantissa_bits) << row.name;
    EXPECT_EQ(format.max_exponent(), row.max_exponent) << row.name;
    EXPECT_EQ(format.min_exponent(), row.min_exponent) << row.name;
  }
}

TEST(FloatFormat, Limits) {
  EXPECT_EQ(named("fp32").max(), FLT_MAX);
  EXPECT_EQ(named("fp32").min_normal(), FLT_MIN);
  EXPECT_EQ(named("fp32").min_subnormal(), FLT_TRUE_MIN);
  EXPECT_EQ(named("fp16").max(), 65504);
  EXPECT_EQ(named("fp8_e4m3").max(), 448);
  EXPECT_EQ(named("fp8_e4m3fnuz").max(), 240);
  EXPECT_EQ(named("fp8_e5m2").max(), 57344);
  EXPECT_EQ(named("fp8_e5m2fnuz").max(), 57344);
  EXPECT_EQ(named("fp8_e5m2fnuz").min_subnormal(), 0x1p-17);
  EXPECT_EQ(named("fp6_e3m2").max(), 28);
  EXPECT_EQ(named("fp6_e2m3").max(), 7.5);
  EXPECT_EQ(named("fp4_e2m1").max(), 6);
  EXPECT_EQ(named("fp4_e2m1").min_subnormal(), 0.5);
  EXPECT_EQ(named("int8").max(), 127);
  EXPECT_EQ(named("int8").lowest(), -128);
}

TEST(FloatFormat, FiniteValuesAreDistinct) {
  EXPECT_EQ(named("fp8_e4m3").finite_values(), 253u);
  EXPECT_EQ(named("fp8_e4m3fnuz").finite_values(), 255u);
  EXPECT_EQ(named("fp8_e5m2").finite_values(), 247u);
  EXPECT_EQ(named("fp16").finite_values(), 63487u);
  EXPECT_EQ(named("fp4_e2m1").finite_values(), 15u);
  EXPECT_EQ(named("int8").finite_values(), 256u);
}

TEST(FloatFormat, SpecialsAsPublished) {
  EXPECT_TRUE(named("fp8_e5m2").has_infinity());
  EXPECT_EQ(named("fp8_e5m2").nan_code(), 0x7Eu);
  EXPECT_FALSE(named("fp8_e4m3").has_infinity());
  EXPECT_EQ(named("fp8_e4m3").nan_code(), 0x7Fu);
  EXPECT_EQ(named("fp8_e4m3fnuz").nan_code(), 0x80u);
  EXPECT_FALSE(named("fp6_e3m2").has_nan());
  EXPECT_FALSE(named("int8").has_nan());
}

TEST(FloatFormat, NamesAreUniqueAndFindable) {
  std::set<std::string> seen;
  for (const NamedFormat& format : named_formats()) {
    EXPECT_TRUE(seen.insert(format.name).second) << format.name;
    EXPECT_EQ(named(format.name), format.format);
    for (const std::string& alias : format.aliases) {
      EXPECT_TRUE(seen.insert(alias).second) << alias;
      EXPECT_EQ(find_format(alias).name, format.name);
    }
  }
  EXPECT_EQ(find_format("BFloat16").name, "bf16");
}

TEST(FloatFormat, AnyEXmY) {
  EXPECT_EQ(named("e5m10"), named("fp16"));
  EXPECT_EQ(named("e6m9"), (FloatFormat{6, 9, 31, Specials::ieee}));
  EXPECT_EQ(named("fp16_e6m9"), named("e6m9"));
  EXPECT_EQ(named("e3m4fn"), (FloatFormat{3, 4, 3, Specials::nan_only}));
  EXPECT_EQ(named("e3m4fnuz"), (FloatFormat{3, 4, 4, Specials::nan_is_neg_zero}));
  EXPECT_EQ(named("e3m0").max(), 8);
}

TEST(FloatFormat, NamesLeadBackToTheFormat) {
  for (const NamedFormat& format : named_formats()) {
    EXPECT_EQ(named(format_name(format.format)), format.format) << format.name;
  }
  for (const char* name : {"e6m9", "e3m4", "e3m4fn", "e3m4fnuz", "e3m0"}) {
    EXPECT_EQ(format_name(named(name)), name);
  }
  EXPECT_EQ(format_name(named("fp8_e4m3")), "e4m3");
  EXPECT_EQ(format_name(named("fp8_e5m2fnuz")), "e5m2fnuz");
  EXPECT_EQ(format_name(named("fp4")), "e2m1");
  EXPECT_EQ(format_name(named("e5m10")), "fp16");
  EXPECT_EQ(format_name(named("bf16")), "bf16");
  EXPECT_EQ(format_name(named("int8")), "int8");
}

TEST(FloatFormat, ErrorsSayWhatWasExpected) {
  EXPECT_NE(error_of("fp8_e4m4x").find("did you mean fp8_e4m3"), std::string::npos);
  EXPECT_NE(error_of("fq16").find("did you mean"), std::string::npos);
  EXPECT_NE(error_of("e9m3").find("got 9 and 3"), std::string::npos);
  EXPECT_NE(error_of("e8m24").find("no wider than fp32"), std::string::npos);
  EXPECT_NE(error_of("e8m3fnuz").find("2 to 7"), std::string::npos);
  EXPECT_NE(error_of("e1m3").find("got 1 and 3"), std::string::npos);
  EXPECT_NE(error_of("fp8_e5m3").find("make fp9"), std::string::npos);
  EXPECT_NE(error_of("e99999m1").find("unknown format"), std::string::npos);
}

}  // namespace
}  // namespace sigma1
