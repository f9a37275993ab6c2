#include "sigma1/base/table.h"

#include <gtest/gtest.h>

namespace sigma1 {
namespace {

TEST(Table, NumbersStandRightAndWordsLeft) {
  Table table({"name", "σ", "why"});
  table.add({"a", "2^-19", "small"});
  table.add({"longer", "-", ""});
  EXPECT_EQ(table.text(),
            "name        σ  why\n"
            "a       2^-19  small\n"
            "longer      -\n");
}

}  // namespace
}  // namespace sigma1
