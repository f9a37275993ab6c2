#include "sigma1/base/machine.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sigma1 {
namespace {

TEST(Machine, TheVersionIsThreeNumbers) {
  std::string text = version();
  EXPECT_EQ(std::ranges::count(text, '.'), 2) << text;
  EXPECT_EQ(text.find_first_not_of("0123456789."), std::string::npos) << text;
}

TEST(Machine, TheProcessorsNameIsOneBareLine) {
  std::string name = processor_name();
  ASSERT_FALSE(name.empty());
  EXPECT_EQ(name.find_first_of("\n:"), std::string::npos) << name;
  EXPECT_NE(name.front(), ' ');
}

}  // namespace
}  // namespace sigma1
