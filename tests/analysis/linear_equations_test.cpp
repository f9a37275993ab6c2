#include "sigma1/analysis/linear_equations.h"

#include <gtest/gtest.h>

namespace sigma1 {
namespace {

constexpr size_t kOrder[] = {0, 1, 2};

TEST(LinearEquations, HaveTheirSolution) {
  // x + y = 3, y + z = 5, x + z = 4
  LinearEquations equations;
  equations.add({{0, 1}, {1, 1}}, 3);
  equations.add({{1, 1}, {2, 1}}, 5);
  equations.add({{0, 1}, {2, 1}}, 4);
  auto solution = equations.solve(kOrder, 3);
  EXPECT_FALSE(solution.contradiction);
  EXPECT_NEAR(solution.values[0], 1, 1e-12);
  EXPECT_NEAR(solution.values[1], 2, 1e-12);
  EXPECT_NEAR(solution.values[2], 3, 1e-12);
}

TEST(LinearEquations, WhatIsOpenIsTheLastOfTheOrder) {
  LinearEquations equations;
  equations.add({{0, 1}, {1, 1}, {2, 1}}, 6);
  EXPECT_EQ(equations.solve(kOrder, 3).values, (std::vector<double>{6, 0, 0}));
  constexpr size_t kOther[] = {2, 1, 0};
  EXPECT_EQ(equations.solve(kOther, 3).values, (std::vector<double>{0, 0, 6}));
}

TEST(LinearEquations, AnUnknownMayAppearTwice) {
  LinearEquations equations;
  equations.add({{0, 1}, {0, 1}}, 6);
  equations.add({{1, 1}, {1, -1}}, 0);
  EXPECT_EQ(equations.solve(kOrder, 3).values, (std::vector<double>{3, 0, 0}));
}

TEST(LinearEquations, TheEquationThatContradictsIsNamed) {
  LinearEquations equations;
  equations.add({{0, 1}, {1, -1}}, 1);
  equations.add({{1, 1}, {2, -1}}, 1);
  equations.add({{0, 1}, {2, -1}}, 2);
  EXPECT_FALSE(equations.solve(kOrder, 3).contradiction);
  equations.add({{0, 2}, {2, -2}}, 5);
  EXPECT_EQ(equations.solve(kOrder, 3).contradiction, 3u);
}

}  // namespace
}  // namespace sigma1
