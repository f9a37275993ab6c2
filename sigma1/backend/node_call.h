// A node as a kernel sees it: buffers of its inputs and outputs, factors, random numbers. Before
// memory is planned the buffers have none, only shapes and formats.
#pragma once

#include <string>
#include <vector>

#include "sigma1/backend/kernel.h"
#include "sigma1/graph/storage.h"

namespace sigma1 {

// A value's buffer, without memory.
Buffer buffer_of(const Graph& graph, Value value);

struct NodeCall {
  const Node* node = nullptr;
  std::vector<Buffer> inputs, outputs;
  std::vector<float> factors;
  std::vector<RandomStream> random;
  std::vector<std::string> streams;  // their names

  NodeCall(const Graph& graph, int index);
  NodeCall(const NodeCall&) = delete;  // launches point into it
  NodeCall& operator=(const NodeCall&) = delete;

  Launch launch() const;
  bool is_stochastic() const;
};

}  // namespace sigma1
