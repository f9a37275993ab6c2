#include "sigma1/train/tensor_labels.h"

#include <fmt/format.h>

#include "sigma1/graph/sources.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

constexpr std::string_view kBackward = "grad/";

bool is_backward(const Node& node) {
  return node.name.starts_with(kBackward) || node.name == kGradientSeed;
}

class Labeller {
 public:
  explicit Labeller(const Graph& graph) : graph_(graph) {}

  void label_forward(int i) {
    const Node& node = graph_.node(i);
    TensorRole role = node.op == &parameter_op ? TensorRole::weight : TensorRole::activation;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      labels_[{node.name, static_cast<int>(o)}] = {output_name(node, o), role};
    }
  }

  void label_gradient(int i, size_t output, Value gradient) {
    const Node& node = graph_.node(i);
    TensorRole role = node.op == &parameter_op ? TensorRole::gradw : TensorRole::gradx;
    std::string name = output_name(node, output);
    const Node& sum = set(gradient, {name, role});
    if (sum.op != &add_op && sum.op != &weighted_add_op) return;
    for (Value part : sum.inputs) {
      set(part, {fmt::format("{} from {}", name, reader_of(graph_.node(part.node))), role});
    }
  }

  TensorLabels take() { return std::move(labels_); }

 private:
  static std::string output_name(const Node& node, size_t output) {
    return output == 0 ? node.name : fmt::format("{}:{}", node.name, output);
  }

  // A backward node lies below the path of the forward one it belongs to.
  static std::string reader_of(const Node& node) {
    std::string name = node.name.substr(is_backward(node) ? kBackward.size() : 0);
    return name.substr(0, name.rfind('/'));
  }

  // A node that only scales or reshapes makes no tensor: what it reads has the same meaning.
  // Nothing is labelled twice, because what passes a gradient on unchanged makes no tensor of its
  // own. Gives the node that makes it.
  const Node& set(Value value, const TensorLabel& label) {
    const Node* node = &graph_.node(value.node);
    labels_.try_emplace({node->name, value.output}, label);
    while (node->op == &identity_op || node->op == &scale_op || node->op == &reshape_op) {
      value = node->inputs.front();
      node = &graph_.node(value.node);
      if (!is_backward(*node)) break;
      labels_.try_emplace({node->name, value.output}, label);
    }
    return *node;
  }

  const Graph& graph_;
  TensorLabels labels_;
};

}  // namespace

TensorLabels label_tensors(const Graph& graph, const Gradients& gradients) {
  Labeller labeller(graph);
  int forward_size = 0;
  while (forward_size < graph.size() && !is_backward(graph.node(forward_size))) {
    labeller.label_forward(forward_size++);
  }
  // In backward's order: a gradient that is passed on is its first owner's.
  for (int i = forward_size - 1; i >= 0; --i) {
    for (size_t o = 0; o < graph.node(i).outputs.size(); ++o) {
      Value value{const_cast<Graph*>(&graph), i, static_cast<int>(o)};
      if (Value gradient = gradients.of(value)) labeller.label_gradient(i, o, gradient);
    }
  }
  return labeller.take();
}

}  // namespace sigma1
