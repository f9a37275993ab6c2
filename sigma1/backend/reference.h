// Runs a graph in double precision with the records' own plain loops: slow, obviously right, and
// the oracle for every other backend.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// Values of inputs and parameters by node name.
using Bindings = std::map<std::string, Tensor>;

// Every output of every node.
class ReferenceResult {
 public:
  explicit ReferenceResult(std::vector<std::vector<Tensor>> values) : values_(std::move(values)) {}
  const Tensor& operator[](Value value) const {
    return values_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  }

 private:
  std::vector<std::vector<Tensor>> values_;
};

// Sees a node's outputs before they are read, and may put others in their place: those of the
// backend that is judged, say, so that each node is judged by itself.
using AfterNode = std::function<void(const Node& node, std::vector<Tensor>& outputs)>;

// Throws Error when a source is not bound or has another shape.
ReferenceResult run_reference(const Graph& graph, const Bindings& bindings, uint64_t step = 0,
                              const AfterNode& after_node = {});

// A parameter as its initialisation says, from random numbers keyed by its name.
Tensor initial_value(const Node& parameter, uint64_t seed);
// All parameters of a graph.
Bindings initial_parameters(const Graph& graph, uint64_t seed);

// Unit normal numbers, keyed by name.
Tensor normal_tensor(const Shape& shape, const std::string& name, uint64_t seed);
// Whole numbers below `limit`.
Tensor index_tensor(const Shape& shape, int64_t limit, const std::string& name, uint64_t seed);

}  // namespace sigma1
