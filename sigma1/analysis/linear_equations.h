// Linear equations of few terms each, solved by elimination, with a say in which unknowns are
// chosen where the equations leave a choice.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace sigma1 {

class LinearEquations {
 public:
  struct Term {
    size_t unknown;
    double coefficient;
  };

  // Σ coefficient · unknown = constant. An unknown may appear more than once.
  void add(std::vector<Term> terms, double constant);

  struct Solution {
    std::vector<double> values;
    std::optional<size_t> contradiction;  // the first equation that those before it rule out
  };

  // `order` names every unknown once. Those that the equations leave open are 0 and, as far as
  // that goes, the last of the order.
  Solution solve(std::span<const size_t> order, size_t unknowns) const;

 private:
  struct Equation {
    std::vector<Term> terms;
    double constant;
  };
  std::vector<Equation> equations_;
};

}  // namespace sigma1
