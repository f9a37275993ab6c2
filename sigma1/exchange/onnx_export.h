// A forward graph as an ONNX model that computes the same numbers: factors become products, ops
// that ONNX lacks are made of ones that it has.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sigma1/exchange/onnx_model.h"
#include "sigma1/graph/graph.h"

namespace sigma1 {

// The numbers of every parameter, by name.
using ParameterValues = std::map<std::string, std::vector<float>>;

// All outputs that the graph marks, and of its inputs those they need. Throws Error that names the
// first op that has no counterpart.
OnnxModel onnx_model(const Graph& graph, const ParameterValues& parameters);

}  // namespace sigma1
