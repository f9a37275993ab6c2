// Reverse-mode differentiation: appends the backward graph, with every β applied.
#pragma once

#include <string_view>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// The gradient of each node's outputs; an empty Value where none flows.
class Gradients {
 public:
  explicit Gradients(std::vector<std::vector<Value>> by_node) : by_node_(std::move(by_node)) {}
  Value of(Value value) const {
    return by_node_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  }

 private:
  std::vector<std::vector<Value>> by_node_;
};

// The node that backward starts from: the gradient of the loss, a constant 1 unless given.
inline constexpr std::string_view kGradientSeed = "gradient_seed";

// The attribute of a β that scales a gradient which its op passes on as it is: not what makes a
// gradient's scale, but how much of it goes that way.
inline constexpr std::string_view kPassesGradient = "passes_gradient";

// Of the scalar `loss`, which must be a marked output. A gradient is right up to a constant per
// tensor when check_gradients_valid() accepts the forward graph. Throws Error when an op on the way
// has no gradient rule. With `seed_input` the seed is an input of the graph, for a loss scale that
// changes while training.
Gradients differentiate(Graph& graph, Value loss, bool seed_input = false);

// By node of a differentiated graph: gradients are what depends on the seed; the forward values
// that backward computes or reads again are not.
std::vector<bool> gradient_nodes(const Graph& graph);

}  // namespace sigma1
