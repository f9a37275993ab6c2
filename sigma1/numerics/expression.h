// Elementwise functions as people write them, "x*sigmoid(1.702*x)", so that anyone can ask for the
// unit-scaling factors of an activation that the compiler has never heard of.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "sigma1/numerics/dual.h"

namespace sigma1 {

// A parsed function of x: f(0.5).derivative.
class Expression {
 public:
  struct Input {};
  using Step = std::variant<double, Input, UnaryFunction, BinaryFunction>;

  explicit Expression(std::vector<Step> steps);  // in reverse Polish order
  Dual operator()(double x) const;

 private:
  std::vector<Step> steps_;
};

// Numbers, x, pi, e, + - * / ^, parentheses and the elementwise functions. As in mathematics -x^2
// is -(x^2) and 2^3^2 is 2^(3^2). A function of one argument without parentheses is applied to x:
// "gelu". Throws Error with the column of what cannot be read.
Expression parse_expression(std::string_view text);

}  // namespace sigma1
