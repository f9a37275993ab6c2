// A forward graph as an ONNX model that computes the same numbers: factors become products, ops
// that ONNX lacks are made of ones that it has.
#pragma once

#include "sigma1/exchange/onnx_model.h"
#include "sigma1/graph/graph.h"
#include "sigma1/train/stored_model.h"

namespace sigma1 {

// All outputs that the graph marks, and of its inputs those they need. Throws Error that names the
// first op that has no counterpart.
OnnxModel onnx_model(const Graph& graph, const ParameterValues& parameters);

}  // namespace sigma1
