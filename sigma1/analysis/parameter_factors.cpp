#include "sigma1/analysis/parameter_factors.h"

#include <algorithm>
#include <cmath>

#include "sigma1/analysis/linear_equations.h"
#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/conv.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {
namespace {

bool is_one_of(const OpDef* op, std::initializer_list<const OpDef*> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

bool is_norm(const Node& node) { return is_one_of(node.op, {&layer_norm_op, &rms_norm_op}); }

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
      factors[from_.node(parameter.node).name] = std::exp(solution.values[at(parameter)]);
    return factors;
  }

 private:
  using Terms = std::vector<LinearEquations::Term>;

  size_t at(Value value) const {
    return first_[static_cast<size_t>(value.node)] + static_cast<size_t>(value.output);
  }
  size_t out(int i, size_t output = 0) const { return first_[static_cast<size_t>(i)] + output; }
  size_t in(int i, size_t k) const { return at(from_.node(i).inputs[k]); }

  void equate(int node, Terms terms, double constant) {
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

  // Each output is proportional to the product of these inputs.
  void product(int i, const std::vector<size_t>& inputs, double more = 0) {
    for (size_t output = 0; output < from_.node(i).outputs.size(); ++output) {
      Terms terms{{out(i, output), 1}};
      for (size_t k : inputs) terms.push_back({in(i, k), -1});
      equate(i, std::move(terms), factor_ratio(i, output) + more);
    }
  }

  // What goes in must be as large as it was, but for a multiplier; what comes out is.
  void fixed(int i) {
    equate(i, {{in(i, 0), 1}}, -attribute_ratio(i, "multiplier"));
    product(i, {});
  }

  void add(int i) {
    const Node& node = from_.node(i);
    if (node.op == &parameter_op || node.outputs.front().kind == Kind::index) return;
    if (node.inputs.empty()) return product(i, {});
    if (is_one_of(node.op, {&add_op, &weighted_add_op})) return add_terms(i);
    if (is_norm(node)) return add_norm(i);
    if (is_one_of(node.op, {&linear_op, &conv1d_op})) return add_product_and_bias(i);
    if (node.op == &attention_op) return add_attention(i);
    if (node.op == &relu_op) return product(i, {0});
    if (node.op == &concat_op) {
      for (size_t k = 0; k < node.inputs.size(); ++k) product(i, {k});
      return;
    }
    if (is_one_of(node.op, {&gelu_op, &gelu_tanh_op, &tanh_op, &sigmoid_op, &silu_op, &softplus_op,
                            &exp_op, &log_op, &softmax_op}))
      return fixed(i);
    if (node.op->linear_in == nullptr)
      throw Error("{}: nothing is known of how {} passes factors on", node.name, node.op->name);
    add_linear(i);
  }

  void add_linear(int i) {
    const Node& node = from_.node(i);
    std::vector<TensorType> types = node.input_types();
    std::vector<size_t> inputs;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.op->linear_in({types, node.attributes}, k)) inputs.push_back(k);
    }
    product(i, inputs, node.op == &scale_op ? attribute_ratio(i, "factor") : 0);
  }

  void add_terms(int i) {
    auto weights = [&](const Graph& graph) {
      std::vector<double> ones(graph.node(i).inputs.size(), 1.0);
      return graph.node(i).attributes.get_or("weights", ones);
    };
    std::vector<double> before = weights(from_), after = weights(to_);
    for (size_t k = 0; k < before.size(); ++k) {
      if (before[k] == 0 && after[k] == 0) continue;
      double ratio = after[k] / before[k];
      if (!(ratio > 0) || std::isinf(ratio))
        throw Error("{}: a weight of {} cannot become one of {}", from_.node(i).name, before[k],
                    after[k]);
      product(i, {k}, std::log(ratio));
    }
  }

  // What a norm reads may be of any scale; without a gain, what it gives is of one.
  void add_norm(int i) {
    size_t inputs = from_.node(i).inputs.size();
    if (inputs == 1) return product(i, {});
    for (size_t k = 1; k < inputs; ++k) product(i, {k});
  }

  void add_product_and_bias(int i) {
    product(i, {0, 1});
    if (from_.node(i).inputs.size() == 3) product(i, {2});
  }

  void add_attention(int i) {
    double logits = -attribute_ratio(i, "multiplier");
    equate(i, {{in(i, 0), 1}, {in(i, 1), 1}}, logits);
    if (from_.node(i).attributes.get<bool>("has_relative"))
      equate(i, {{in(i, 0), 1}, {in(i, 3), 1}}, logits);
    product(i, {2});
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
  size_t count_ = 0;
  LinearEquations equations_;
  std::vector<int> origins_;  // of each equation
};

}  // namespace

std::map<std::string, double> parameter_factors(const Graph& from, const Graph& to) {
  return Conditions(from, to).solve();
}

}  // namespace sigma1
