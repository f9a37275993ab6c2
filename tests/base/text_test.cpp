#include "sigma1/base/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sigma1 {
namespace {

TEST(Text, Split) {
  EXPECT_EQ(split("a,b,,c", ','), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

TEST(Text, NearestName) {
  const std::vector<std::string> names{"fp16", "bf16", "fp8_e4m3"};
  EXPECT_EQ(nearest_name("pf16", names), "fp16");
  EXPECT_EQ(nearest_name("fp61", names), "fp16");
  EXPECT_EQ(nearest_name("bf17", names), "bf16");
  EXPECT_EQ(nearest_name("FP8_E4M4", names), "fp8_e4m3");
  EXPECT_EQ(nearest_name("transformer", names), "");
}

TEST(Text, Numbers) {
  EXPECT_EQ(parse_number("0.25"), 0.25);
  EXPECT_EQ(parse_number("-1e-3"), -1e-3);
  EXPECT_EQ(parse_number("2^-24"), std::ldexp(1, -24));
  EXPECT_EQ(parse_number("-2^-2"), -0.25);
  EXPECT_EQ(parse_number("127/180"), 127.0 / 180);
  EXPECT_EQ(parse_number("0x1p-3"), 0.125);
  EXPECT_TRUE(std::isinf(*parse_number("-inf")));
  EXPECT_TRUE(std::isnan(*parse_number("nan")));
  for (const char* text : {"", " 1", "1 ", "1x", "two", "2^", "^2", "1/", "1//2", "--1"}) {
    EXPECT_FALSE(parse_number(text)) << text;
  }
}

}  // namespace
}  // namespace sigma1
