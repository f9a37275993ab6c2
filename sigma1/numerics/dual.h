// A value and its derivative carried through a calculation together (forward mode), because the
// gradient's scale of an elementwise function needs f' exactly, also where f saturates.
#pragma once

#include <span>
#include <string>
#include <variant>

namespace sigma1 {

// A function's value and its derivative with respect to x, at one x.
struct Dual {
  double value, derivative;
};

Dual operator+(Dual a, Dual b);
Dual operator-(Dual a, Dual b);
Dual operator*(Dual a, Dual b);
Dual operator/(Dual a, Dual b);
Dual pow(Dual a, Dual b);

using UnaryFunction = Dual (*)(double);  // with its derivative by its own argument
using BinaryFunction = Dual (*)(Dual, Dual);

// The chain rule.
Dual apply(UnaryFunction f, Dual inner);

struct NamedFunction {
  std::string name;
  std::variant<UnaryFunction, BinaryFunction> function;
};

// relu, gelu, max and so on. At the kink of relu and abs the derivative is 0.
std::span<const NamedFunction> elementwise_functions();

}  // namespace sigma1
