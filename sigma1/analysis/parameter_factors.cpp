#include "sigma1/analysis/parameter_factors.h"

#include <algorithm>
#include <cmath>

#include "sigma1/analysis/factor_conditions.h"
#include "sigma1/analysis/linear_equations.h"
#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/pointwise.h"

namespace sigma1 {
namespace {

void expect_same_structure(const Graph& from, const Graph& to) {
  bool same = from.size() == to.size();
  for (int i = 0; same && i < from.size(); ++i) {
    const Node &a = from.node(i), &b = to.node(i);
    same = a.op == b.op && a.name == b.name && a.inputs.size() == b.inputs.size();
    for (size_t k = 0; same && k < a.inputs.size(); ++k)
      same = a.inputs[k].node == b.inputs[k].node && a.inputs[k].output == b.inputs[k].output;
  }
  if (!same) throw Error("expected two models of the same layers, got others");
}

// Unknowns are log s, one for each output of each node; equations are the ops' conditions.
class Conditions {
 public:
  Conditions(const Graph& from, const Graph& to) : from_(from), to_(to) {
    expect_same_structure(from, to);
    for (const Node& node : from.nodes()) {
      first_.push_back(count_);
      count_ += node.outputs.size();
    }
    wanted_.assign(count_, 0);
    for (int i = 0; i < from.size(); ++i) {
      if (from.node(i).op == &parameter_op) wanted_[out(i)] = initial_ratio(i);
    }
    for (int i = 0; i < from.size(); ++i) add(i);
    for (const auto& [name, value] : from.outputs()) equate(value.node, {{at(value), 1}}, 0);
  }

  std::map<std::string, double> solve() const {
    LinearEquations::Solution solution = equations_.solve(order(), count_);
    if (solution.contradiction) {
      const Node& node = from_.node(origins_[*solution.contradiction]);
      throw Error("{}: the factors of this {} cannot be folded into parameters", node.name,
                  node.op->name);
    }
    std::map<std::string, double> factors;
    for (Value parameter : from_.parameters())
      factors[from_.node(parameter.node).name] =
          std::exp(wanted_[at(parameter)] + solution.values[at(parameter)]);
    return factors;
  }

 private:
  using Terms = std::vector<LinearEquations::Term>;

  size_t at(Value value) const {
    return first_[static_cast<size_t>(value.node)] + static_cast<size_t>(value.output);
  }
  size_t out(int i, size_t output = 0) const { return first_[static_cast<size_t>(i)] + output; }
  size_t in(int i, size_t k) const { return at(from_.node(i).inputs[k]); }

  // Solved for is what log s has beyond what is wanted: where there is a choice, that is 0.
  void equate(int node, Terms terms, double constant) {
    for (const LinearEquations::Term& term : terms) {
      constant -= term.coefficient * wanted_[term.unknown];
    }
    equations_.add(std::move(terms), constant);
    origins_.push_back(node);
  }

  // log of what `to` multiplies by beyond `from`.
  double attribute_ratio(int i, std::string_view name) const {
    return std::log(to_.node(i).attributes.get_or(name, 1.0) /
                    from_.node(i).attributes.get_or(name, 1.0));
  }
  double factor_ratio(int i, size_t output = 0) const {
    return std::log(to_.node(i).factor(output) / from_.node(i).factor(output));
  }

  // log of how much larger `to` starts a parameter.
  double initial_ratio(int i) const {
    double before = from_.node(i).attributes.get_or("std_dev", 0.0);
    double after = to_.node(i).attributes.get_or("std_dev", 0.0);
    return before > 0 && after > 0 ? std::log(after / before) : 0;
  }

  void add(int i) {
    const Node& node = from_.node(i);
    FactorConditions conditions = factor_conditions(node);
    for (const InputGroup& group : conditions.fixed)
      equate(i, terms_of(i, group, 1), -attribute_ratio(i, "multiplier"));
    for (const InputGroup& group : conditions.outputs) {
      if (is_sum(node) && is_absent(i, group.front())) continue;
      for (size_t output = 0; output < node.outputs.size(); ++output) {
        Terms terms = terms_of(i, group, -1);
        terms.push_back({out(i, output), 1});
        equate(i, std::move(terms), factor_ratio(i, output) + own_ratio(i, group));
      }
    }
  }

  Terms terms_of(int i, const InputGroup& group, double times) const {
    Terms terms;
    for (size_t k : group) terms.push_back({in(i, k), times});
    return terms;
  }

  bool is_absent(int i, size_t term) const {
    return sum_weights(from_.node(i))[term] == 0 && sum_weights(to_.node(i))[term] == 0;
  }

  // log of what the op itself multiplies a group by, in `to` beyond `from`.
  double own_ratio(int i, const InputGroup& group) const {
    if (from_.node(i).op == &scale_op) return attribute_ratio(i, "factor");
    if (!is_sum(from_.node(i))) return 0;
    double before = sum_weights(from_.node(i))[group.front()];
    double after = sum_weights(to_.node(i))[group.front()], ratio = after / before;
    if (!(ratio > 0) || std::isinf(ratio))
      throw Error("{}: a weight of {} cannot become one of {}", from_.node(i).name, before, after);
    return std::log(ratio);
  }

  // The last of these are chosen where there is a choice: activations follow from parameters,
  // matrices from vectors, and all from norms, which are 1 in every model that starts.
  std::vector<size_t> order() const {
    std::vector<int> rank(from_.nodes().size(), 0);
    for (Value parameter : from_.parameters())
      rank[static_cast<size_t>(parameter.node)] = parameter.type().rank() > 1 ? 1 : 2;
    for (const Node& node : from_.nodes()) {
      if (!is_norm(node)) continue;
      for (size_t k = 1; k < node.inputs.size(); ++k)
        rank[static_cast<size_t>(node.inputs[k].node)] = 3;
    }
    std::vector<size_t> columns;
    for (int wanted : {0, 1, 2, 3}) {
      for (int i = 0; i < from_.size(); ++i) {
        if (rank[static_cast<size_t>(i)] != wanted) continue;
        for (size_t k = 0; k < from_.node(i).outputs.size(); ++k) columns.push_back(out(i, k));
      }
    }
    return columns;
  }

  const Graph &from_, &to_;
  std::vector<size_t> first_;
  std::vector<double> wanted_;  // log s, by unknown
  size_t count_ = 0;
  LinearEquations equations_;
  std::vector<int> origins_;  // of each equation
};

}  // namespace

std::map<std::string, double> parameter_factors(const Graph& from, const Graph& to) {
  return Conditions(from, to).solve();
}

}  // namespace sigma1
