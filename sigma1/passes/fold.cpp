#include <algorithm>

#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/lowering.h"

namespace sigma1 {
namespace {

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph), uses_(count_uses(graph)) {
    for (int i = 0; i < graph.size(); ++i) {
      vanished_.push_back(false);
      for (Value input : graph.node(i).inputs) readers_[key(input)].push_back(i);
    }
  }

  // From the end, so that a chain of scales collects its factors on the way.
  void up() {
    for (int i = graph_.size() - 1; i >= 0; --i) move_up(i);
    drop_vanished();
  }

  void down() {
    for (int i = 0; i < graph_.size(); ++i) {
      if (is_scaler(i) || graph_.node(i).op == &reshape_op) move_down(i);
    }
    drop_vanished();
  }

 private:
  static size_t index(int node) { return static_cast<size_t>(node); }
  static std::pair<int, int> key(Value value) { return {value.node, value.output}; }

  bool is_scaler(int i) const {
    const OpDef* op = graph_.node(i).op;
    return op == &identity_op || op == &scale_op;
  }

  // The whole factor of a node with one output, as far as it is not the op's own business.
  double factor(int i) const {
    const Node& node = graph_.node(i);
    double own = node.op == &scale_op ? node.attributes.get<double>("factor") : 1;
    return own * node.factor(0);
  }

  void multiply(int i, size_t output, double factor) {
    Node& node = graph_.node(i);
    node.output_factors.resize(node.outputs.size(), 1.0);
    node.output_factors[output] *= factor;
  }

  bool is_linear(int i, size_t input) const {
    const Node& node = graph_.node(i);
    std::vector<TensorType> types = node.input_types();
    return node.op->linear_in != nullptr && node.op->linear_in({types, node.attributes}, input);
  }

  // A factor on something that only moves or scales numbers is as good before it, if nothing else
  // reads what is there. Not before a sum: its terms are stored, at a scale of their own.
  void move_up(int i) {
    Node& node = graph_.node(i);
    bool moves =
        is_scaler(i) ||
        (node.inputs.size() == 1 && node.outputs.size() == 1 &&
         node.outputs.front().count() == node.inputs.front().type().count() && is_linear(i, 0));
    if (!moves || node.outputs.front().kind == Kind::index || weighs_term(i)) return;
    Value input = node.inputs.front();
    bool sole_reader = uses_[index(input.node)][index(input.output)] == 1;
    if (is_source(*graph_.node(input.node).op) || !sole_reader) return;
    double moved = is_scaler(i) ? factor(i) : node.factor(0);
    multiply(input.node, index(input.output), moved);
    if (is_scaler(i)) {
      vanished_[index(i)] = true;
    } else {
      node.alpha = 1;
      node.output_factors.clear();
    }
  }

  // The factor by which a residual's share of a gradient counts: what is shared is stored at its
  // own scale, and the sum takes the factor as a weight.
  bool weighs_term(int i) const {
    auto found = readers_.find({i, 0});
    return graph_.node(i).attributes.get_or<bool>(kPassesGradient, false) &&
           found != readers_.end() &&
           static_cast<int>(found->second.size()) == uses_[index(i)][0] &&
           std::ranges::all_of(found->second, [&](int reader) { return takes_weights(reader); });
  }

  // A factor goes to all readers, if each can take it. A reshape without one is a mere name.
  void move_down(int i) {
    if (factor(i) == 1) return forget_factor(i);
    const std::vector<int>& readers = readers_[{i, 0}];
    if (static_cast<int>(readers.size()) != uses_[index(i)][0]) return;  // an output of the graph
    for (int reader : readers) {
      for (size_t input : inputs_from(reader, i)) {
        if (!takes_weights(reader) && !is_linear(reader, input)) return;
      }
    }
    int last = -1;  // a node that reads it twice is listed twice
    for (int reader : readers) {
      if (reader != last) absorb(reader, i);
      last = reader;
    }
    forget_factor(i);
  }

  void forget_factor(int i) {
    vanished_[index(i)] = is_scaler(i);
    graph_.node(i).alpha = 1;
    graph_.node(i).output_factors.clear();
  }

  bool takes_weights(int i) const {
    return graph_.node(i).op == &add_op || graph_.node(i).op == &weighted_add_op;
  }

  std::vector<size_t> inputs_from(int reader, int source) const {
    std::vector<size_t> found;
    const Node& node = graph_.node(reader);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k].node == source) found.push_back(k);
    }
    return found;
  }

  void absorb(int reader, int source) {
    Node& node = graph_.node(reader);
    double moved = factor(source);
    for (size_t input : inputs_from(reader, source)) {
      if (takes_weights(reader)) {
        std::vector<double> weights(node.inputs.size(), 1.0);
        if (node.op == &weighted_add_op)
          weights = node.attributes.get<std::vector<double>>("weights");
        weights[input] *= moved;
        node.op = &weighted_add_op;
        node.attributes.set("weights", weights);
      } else {
        for (size_t output = 0; output < node.outputs.size(); ++output) {
          multiply(reader, output, moved);
        }
      }
    }
  }

  void drop_vanished() {
    rewrite(graph_, [&](Rewriter& rewriter, int i) {
      if (!vanished_[index(i)]) return rewriter.copy(i);
      return std::vector<Value>{rewriter.now(graph_.node(i).inputs.front())};
    });
  }

  Graph& graph_;
  std::vector<std::vector<int>> uses_;
  std::map<std::pair<int, int>, std::vector<int>> readers_;
  std::vector<bool> vanished_;
};

}  // namespace

void fold(Graph& graph) {
  Folder(graph).up();
  Folder(graph).down();
}

}  // namespace sigma1
