// What each op is in ONNX. Private to this folder.
#pragma once

#include "sigma1/exchange/onnx_model.h"
#include "sigma1/graph/graph.h"

namespace sigma1 {

// A node on the way: its inputs' names in the model, and where to write. What it gives is not yet
// multiplied by the node's factors.
struct OnnxNode {
  const Node& node;
  OnnxModel::Names inputs;
  OnnxModel& model;

  const std::string& in(size_t i) const { return inputs[i]; }
  const Shape& shape(size_t i) const { return node.inputs[i].shape(); }
  const Shape& out_shape() const { return node.outputs.front().shape; }
  template <class T>
  T attr(std::string_view name) const {
    return node.attributes.get<T>(name);
  }
};

using OnnxRule = OnnxModel::Names (*)(const OnnxNode&);

// Null for an op without a counterpart.
OnnxRule onnx_rule(const OpDef& op);

std::string onnx_attention(const OnnxNode& n);
std::string onnx_rotary(const OnnxNode& n);

}  // namespace sigma1
