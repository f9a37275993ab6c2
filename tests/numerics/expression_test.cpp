#include "sigma1/numerics/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

double value_of(const std::string& text, double x = 0) { return parse_expression(text)(x).value; }

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string complaint_about(const std::string& text) {
  try {
    parse_expression(text);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no complaint about '" << text << "'";
  return "";
}

TEST(Expression, Precedence) {
  const std::pair<const char*, double> cases[] = {
      {"1+2*3", 7},         {"(1+2)*3", 9},     {"2*3+1", 7},          {"10-4-3", 3},
      {"10-(4-3)", 9},      {"64/4/2", 8},      {"64/(4/2)", 32},      {"6/3*2", 4},
      {"2^3^2", 512},       {"(2^3)^2", 64},    {"-2^2", -4},          {"(-2)^2", 4},
      {"2^-2", 0.25},       {"-2^-2", -0.25},   {"2*-3", -6},          {"2--3", 5},
      {"--3", 3},           {"+3", 3},          {"2*3^2", 18},         {"2^2*3", 12},
      {"-3*2+10", 4},       {"max(1, 2)*3", 6}, {"min(1, 2) - 3", -2}, {"max(1+1, min(5, 3))", 3},
      {"-max(-1, -2)", 1},  {"relu(3)^2", 9},   {"abs(-2)*abs(3)", 6}, {" 1 +\t2 * 3\n", 7},
      {"sqrt(2*(3+5))", 4},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(value_of(text), expected) << text;
}

TEST(Expression, NumbersAndNames) {
  EXPECT_EQ(value_of("1e-3"), 1e-3);
  EXPECT_EQ(value_of("2.5E+2"), 250);
  EXPECT_EQ(value_of(".5"), 0.5);
  EXPECT_EQ(value_of("5."), 5);
  EXPECT_EQ(value_of("pi"), std::numbers::pi);
  EXPECT_EQ(value_of("e"), std::numbers::e);
  EXPECT_EQ(value_of("1e1*e"), 10 * std::numbers::e);
  EXPECT_EQ(value_of("x", 0.7), 0.7);
  EXPECT_EQ(value_of("x^2 - x", 3), 6);
}

TEST(Expression, BareFunctionIsAppliedToX) {
  for (const auto& [name, function] : elementwise_functions()) {
    const auto* unary = std::get_if<UnaryFunction>(&function);
    if (unary == nullptr) continue;
    Dual expected = (*unary)(0.4);
    for (const std::string& text : {name, name + "(x)", "--" + name}) {
      Dual actual = parse_expression(text)(0.4);
      EXPECT_EQ(actual.value, expected.value) << text;
      EXPECT_EQ(actual.derivative, expected.derivative) << text;
    }
  }
  EXPECT_EQ(value_of("2*relu + 1", 3), 7);
}

TEST(Expression, DerivativeOfAWholeExpression) {
  constexpr double kStep = 1e-5;
  for (const char* text :
       {"-x^3/(1+x^2)", "x*sigmoid(1.702*x)", "exp(-x^2/2)*sin(3*x)", "2^x - x^-2", "x^x",
        "log(1+exp(x))^2", "max(0.1*x, tanh(x-1))", "min(x, 1/x) + pi", "sqrt(abs(sin(x)))"}) {
    Expression f = parse_expression(text);
    for (double x : {0.4, 0.8, 1.7}) {
      double expected = (f(x + kStep).value - f(x - kStep).value) / (2 * kStep);
      EXPECT_NEAR(f(x).derivative, expected, 1e-7 * (1 + std::fabs(expected))) << text << " " << x;
    }
  }
}

TEST(Expression, ErrorsSayWhatAndWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"x*sigmod(x)", "unknown function 'sigmod' at column 3: did you mean sigmoid?"},
      {"1 + y", "unknown name 'y' at column 5: did you mean x?"},
      {"gelo", "unknown name 'gelo' at column 1: did you mean gelu?"},
      {"zzzzzzzz(x)", "unknown function 'zzzzzzzz' at column 1"},
      {"", "expected a number, x, a function or '(', got the end at column 1"},
      {"x+", "expected a number, x, a function or '(', got the end at column 3"},
      {"x+*3", "expected a number, x, a function or '(', got '*' at column 3"},
      {"()", "expected a number, x, a function or '(', got ')' at column 2"},
      {"2x", "expected an operator or the end, got 'x' at column 2"},
      {"x)", "expected an operator or the end, got ')' at column 2"},
      {"x x", "expected an operator or the end, got 'x' at column 3"},
      {"x(2)", "expected an operator or the end, got '(' at column 2"},
      {"(x", "expected ')', got the end at column 3"},
      {"tanh(x", "expected ')', got the end at column 7"},
      {"relu(x, 1)", "expected ')', got ',' at column 7"},
      {"max(x)", "expected ',', got ')' at column 6"},
      {"min", "expected '(', got the end at column 4"},
      {".", "expected a number, got '.' at column 1"},
      {"x*1e999", "expected a number in the range of a double, got one beyond it at column 3"},
      {"x−1", "expected an operator or the end, got '−' at column 2"},
      {"π−1", "expected a number, x, a function or '(', got 'π' at column 1"},
      {"1*π−1", "expected a number, x, a function or '(', got 'π' at column 3"},
  };
  for (const auto& [text, problem] : cases) {
    EXPECT_EQ(complaint_about(text), fmt::format("expression '{}': {}", text, problem));
  }
}

TEST(Expression, ErrorsAreOneShortLine) {
  EXPECT_EQ(complaint_about("x\n+\ty"),
            "expression 'x + y': unknown name 'y' at column 5: did you mean x?");
  EXPECT_NE(complaint_about(std::string("x\0x", 3)).find("at column 2"), std::string::npos);
  EXPECT_LT(complaint_about(repeated("x+", 100) + "y").size(), 150U);
}

TEST(Expression, DepthAndLengthAreGuarded) {
  auto nested = [](size_t depth, const std::string& open = "(", const std::string& close = ")") {
    return repeated(open, depth) + "x" + repeated(close, depth);
  };
  EXPECT_EQ(value_of(nested(199), 3), 3);
  for (const std::string& text : {nested(200), nested(200, "-", ""), nested(200, "2^", ""),
                                  nested(200, "abs("), nested(200, "max(x,")}) {
    EXPECT_NE(complaint_about(text).find("nesting of at most 200"), std::string::npos);
  }
  EXPECT_NE(complaint_about(nested(100'000)).find("10000 characters"), std::string::npos);
  EXPECT_EQ(value_of(repeated("x+", 4'999) + "x", 1), 5'000);
}

// The most operands that can wait at once.
TEST(Expression, DeepestExpressionEvaluates) {
  std::string text = repeated("0+1*max(0,0+1*(", 99) + "x" + repeated("))", 99);
  EXPECT_EQ(value_of(text, 3), 3);
}

TEST(Expression, StepsThatDoNotFitAreABug) {
  EXPECT_THROW(Expression({}), Bug);
  EXPECT_THROW(Expression({1.0, 2.0}), Bug);
  EXPECT_THROW(Expression({1.0, static_cast<BinaryFunction>(pow)}), Bug);
}

}  // namespace
}  // namespace sigma1
