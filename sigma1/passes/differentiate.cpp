#include "sigma1/passes/differentiate.h"

#include <algorithm>

#include "sigma1/analysis/gradient_edges.h"
#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"

namespace sigma1 {
namespace {

class Backward {
 public:
  Backward(Graph& graph, Value loss, bool seed_input)
      : graph_(graph),
        edges_(graph),
        contributions_(graph.nodes().size()),
        gradients_(graph.nodes().size()) {
    for (int i = 0; i < graph.size(); ++i) {
      contributions_[static_cast<size_t>(i)].resize(graph.node(i).outputs.size());
    }
    contribute(loss, seed(graph, loss.type(), seed_input));
  }

  Gradients run(int last_node) {
    for (int i = last_node; i >= 0; --i) {
      std::vector<Value> output_gradients = gather(i);
      bool reached = false;
      for (Value gradient : output_gradients) reached = reached || gradient;
      if (reached) propagate(i, output_gradients);
      gradients_[static_cast<size_t>(i)] = std::move(output_gradients);
    }
    return Gradients(std::move(gradients_));
  }

 private:
  static Value seed(Graph& graph, const TensorType& type, bool is_input) {
    std::string name(kGradientSeed);
    if (is_input) return graph.input(name, type, false);
    Attributes one{{"shape", type.shape}, {"value", 1.0}};
    return graph.append(constant_op, {}, one, name).front();
  }

  void contribute(Value value, Value gradient) {
    contributions_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)].push_back(
        gradient);
  }

  std::vector<Value> gather(int node) {
    Graph::Path path(graph_, "grad/" + graph_.node(node).name);
    std::vector<Value> gradients;
    for (const std::vector<Value>& shares : contributions_[static_cast<size_t>(node)]) {
      gradients.push_back(shares.empty()       ? Value{}
                          : shares.size() == 1 ? shares.front()
                                               : add(shares));
    }
    return gradients;
  }

  void propagate(int node, const std::vector<Value>& output_gradients) {
    std::vector<size_t> wanted;
    for (size_t input = 0; input < graph_.node(node).inputs.size(); ++input) {
      if (edges_.contains(node, input)) wanted.push_back(input);
    }
    if (wanted.empty()) return;
    Graph::Path path(graph_, "grad/" + graph_.node(node).name);
    GradView view(graph_, node, output_gradients);
    Grads grads = graph_.node(node).op->grad(view);
    for (size_t input : wanted) {
      if (!grads[input]) {
        throw Error("{} at {}: no gradient for input {}", graph_.node(node).op->name,
                    graph_.node(node).name, input);
      }
      Value share = scaled(grads[input], graph_.node(node).beta[input]);
      bool passes = !(share == grads[input]) &&
                    std::ranges::find(output_gradients, grads[input]) != output_gradients.end();
      if (passes) graph_.node(share.node).attributes.set(std::string(kPassesGradient), true);
      contribute(graph_.node(node).inputs[input], share);
    }
  }

  // id*(gradient, β): folded into the op before it when the graph is lowered.
  Value scaled(Value gradient, double beta) {
    if (beta == 1) return gradient;
    Value result = identity(gradient);
    graph_.node(result.node).alpha = beta;
    return result;
  }

  Graph& graph_;
  GradientEdges edges_;
  std::vector<std::vector<std::vector<Value>>> contributions_;
  std::vector<std::vector<Value>> gradients_;
};

}  // namespace

Gradients differentiate(Graph& graph, Value loss, bool seed_input) {
  if (loss.type().count() != 1) {
    throw Error("differentiate: expected a scalar loss, got shape {}", to_string(loss.shape()));
  }
  bool marked = false;
  for (const auto& [name, value] : graph.outputs()) marked = marked || value.node == loss.node;
  if (!marked) throw Error("differentiate: expected the loss to be a marked output of the graph");
  int last_node = graph.size() - 1;
  return Backward(graph, loss, seed_input).run(last_node);
}

std::vector<bool> gradient_nodes(const Graph& graph) {
  std::vector<bool> is_gradient;
  for (const Node& node : graph.nodes()) {
    bool found = node.name == kGradientSeed;
    for (Value input : node.inputs) {
      found = found || is_gradient[static_cast<size_t>(input.node)];
    }
    is_gradient.push_back(found);
  }
  return is_gradient;
}

}  // namespace sigma1
