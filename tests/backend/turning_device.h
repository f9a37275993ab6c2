// A device that is the CPU, but asks for the second factor of every product of 8 bits in both
// orientations, as GPUs do. Its kernels write one; it turns what they wrote.
#pragma once

#include "sigma1/backend/node_call.h"
#include "sigma1/ops/linear.h"
#include "tests/backend/cpu_like.h"

namespace sigma1 {

class TurningDevice : public CpuLike {
 public:
  bool reads_turned(const Graph& graph, int node, size_t input) const override {
    const Node& product = graph.node(node);
    if ((product.op != &matmul_op && product.op != &linear_op) || input != 1) return false;
    Buffer factor = buffer_of(graph, product.inputs[1]);
    return factor.codec != nullptr && factor.codec->bytes() == 1 && factor.shape.size() == 2;
  }
  void turn(const Buffer& buffer) const override {
    int64_t width = buffer.shape.back(), rows = buffer.count() / width;
    for (int64_t i = 0; i < buffer.count(); ++i) {
      buffer.turned[i % width * rows + i / width] = buffer.data[i];
    }
  }
};

// Whether the turned half of a tensor of 8 bits is what it should be.
inline bool is_turned(const Buffer& buffer) {
  int64_t width = buffer.shape.back(), rows = buffer.count() / width;
  for (int64_t i = 0; i < buffer.count(); ++i) {
    if (buffer.turned[i % width * rows + i / width] != buffer.data[i]) return false;
  }
  return true;
}

}  // namespace sigma1
