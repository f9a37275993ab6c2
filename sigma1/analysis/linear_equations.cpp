#include "sigma1/analysis/linear_equations.h"

#include <cmath>
#include <map>

namespace sigma1 {
namespace {

// Coefficients are small whole numbers and constants logarithms of factors: what is below this is a
// rounding error.
constexpr double kNothing = 1e-9;

// An equation by place in the order; the first place is what it determines.
struct Row {
  std::map<size_t, double> terms;
  double constant;

  void subtract(const Row& other, double times) {
    for (const auto& [place, coefficient] : other.terms) {
      double& own = terms[place];
      own -= times * coefficient;
      if (std::fabs(own) < kNothing) terms.erase(place);
    }
    constant -= times * other.constant;
  }
};

}  // namespace

void LinearEquations::add(std::vector<Term> terms, double constant) {
  equations_.push_back({std::move(terms), constant});
}

LinearEquations::Solution LinearEquations::solve(std::span<const size_t> order,
                                                 size_t unknowns) const {
  std::vector<size_t> place(unknowns);
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::map<size_t, Row> rows;  // by what they determine
  Solution solution{std::vector<double>(unknowns), {}};
  for (size_t i = 0; i < equations_.size(); ++i) {
    Row row{{}, equations_[i].constant};
    for (const Term& term : equations_[i].terms) row.terms[place[term.unknown]] += term.coefficient;
    std::erase_if(row.terms, [](const auto& term) { return std::fabs(term.second) < kNothing; });
    // Reduced from the front on, until its first term is one that no row determines yet.
    for (auto at = row.terms.begin(); at != row.terms.end();) {
      size_t first = at->first;
      auto known = rows.find(first);
      if (known == rows.end()) break;
      row.subtract(known->second, at->second);
      at = row.terms.begin();
    }
    if (row.terms.empty()) {
      if (std::fabs(row.constant) < kNothing) continue;
      solution.contradiction = i;
      return solution;
    }
    double lead = row.terms.begin()->second;
    for (auto& [at, coefficient] : row.terms) coefficient /= lead;
    row.constant /= lead;
    rows[row.terms.begin()->first] = std::move(row);
  }
  // What a row determines stands before its other terms, so that the last row goes first.
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    double value = row->second.constant;
    for (const auto& [at, coefficient] : row->second.terms) {
      if (at != row->first) value -= coefficient * solution.values[order[at]];
    }
    solution.values[order[row->first]] = value;
  }
  return solution;
}

}  // namespace sigma1
