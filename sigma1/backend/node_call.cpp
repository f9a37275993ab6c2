#include "sigma1/backend/node_call.h"

#include <algorithm>

namespace sigma1 {

Buffer buffer_of(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  auto output = static_cast<size_t>(value.output);
  const TensorType& type = node.outputs[output];
  const Codec* codec = type.kind == Kind::index ? nullptr : shared_codec(storage(node, output));
  return {nullptr, codec, type.shape, type.kind};
}

NodeCall::NodeCall(const Graph& graph, int index) : node(&graph.node(index)) {
  for (Value input : node->inputs) inputs.push_back(buffer_of(graph, input));
  for (size_t o = 0; o < node->outputs.size(); ++o) {
    outputs.push_back(buffer_of(graph, {const_cast<Graph*>(&graph), index, static_cast<int>(o)}));
    factors.push_back(static_cast<float>(node->factor(o)));
    random.emplace_back();
    streams.push_back(storage_stream(*node, o));
  }
}

Launch NodeCall::launch() const {
  return {inputs, outputs, node->attributes, factors, random, {}, 0, nullptr};
}

bool NodeCall::is_stochastic() const {
  return std::ranges::any_of(
      node->storage, [](const Cast& cast) { return cast.rounding == Rounding::stochastic; });
}

}  // namespace sigma1
