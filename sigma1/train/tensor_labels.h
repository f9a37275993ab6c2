// Which tensor of a step is which. Lowering moves factors and drops nodes, so that a gradient's
// node says little by itself; these labels, taken right after differentiation, say whose gradient
// it is.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "sigma1/passes/differentiate.h"
#include "sigma1/runtime/probe.h"

namespace sigma1 {

struct TensorLabel {
  std::string name;  // of the forward tensor, or of the one whose gradient it is
  TensorRole role = TensorRole::activation;
};

// By the node's name, which lowering keeps, and its output.
using TensorLabels = std::map<std::pair<std::string, int>, TensorLabel>;

// Of a graph that was differentiated just now. A tensor with several readers gets its gradient in
// parts, which are stored too: each is called after the tensor and the reader it comes from.
TensorLabels label_tensors(const Graph& graph, const Gradients& gradients);

}  // namespace sigma1
