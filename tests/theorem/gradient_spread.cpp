#include "tests/theorem/gradient_spread.h"

#include <algorithm>
#include <cmath>

#include "sigma1/passes/differentiate.h"

namespace sigma1 {
namespace {

// The gradients of all original nodes' first outputs; empty where none flows.
std::vector<Tensor> all_gradients(Graph& graph, const Bindings& bindings) {
  int forward_nodes = graph.size();
  Gradients gradients = differentiate(graph, graph.output("loss"));
  ReferenceResult result = run_reference(graph, bindings);
  std::vector<Tensor> tensors;
  for (int i = 0; i < forward_nodes; ++i) {
    Value gradient = gradients.of({&graph, i, 0});
    tensors.push_back(gradient ? result[gradient] : Tensor());
  }
  return tensors;
}

double spread(const Tensor& gradient, const Tensor& truth) {
  double product = 0, square = 0, largest = 0, distance = 0;
  for (int64_t i = 0; i < truth.count(); ++i) {
    product += gradient[i] * truth[i];
    square += truth[i] * truth[i];
    largest = std::max(largest, std::fabs(gradient[i]));
  }
  if (square == 0 || largest == 0) return square == 0 && largest == 0 ? 0 : 1;
  for (int64_t i = 0; i < truth.count(); ++i) {
    distance = std::max(distance, std::fabs(gradient[i] - product / square * truth[i]));
  }
  return distance / largest;
}

}  // namespace

void copy_graph(const Graph& from, Graph& to) {
  for (const Node& node : from.nodes()) {
    std::vector<Value> inputs = node.inputs;
    for (Value& input : inputs) input.graph = &to;
    to.append(*node.op, inputs, node.attributes, node.name);
    Node& copy = to.node(to.size() - 1);
    copy.alpha = node.alpha;
    copy.beta = node.beta;
    copy.pinned = node.pinned;
  }
  for (auto [name, value] : from.outputs()) {
    value.graph = &to;
    to.mark_output(name, value);
  }
}

double worst_gradient_spread(const Graph& graph, const Bindings& bindings) {
  Graph scaled, truth;
  copy_graph(graph, scaled);
  copy_graph(graph, truth);
  for (int i = 0; i < truth.size(); ++i) {
    std::ranges::fill(truth.node(i).beta, truth.node(i).alpha);
  }
  std::vector<Tensor> ours = all_gradients(scaled, bindings),
                      right = all_gradients(truth, bindings);
  double worst = 0;
  for (size_t i = 0; i < ours.size(); ++i) worst = std::max(worst, spread(ours[i], right[i]));
  return worst;
}

}  // namespace sigma1
