// The matrix products of a step alone, on any device: the least the step can take there by the same
// kernels and libraries. What it takes beyond is ours to answer for.
#pragma once

#include <memory>

#include "sigma1/runtime/program.h"

namespace sigma1 {

// A matmul of the same sizes and formats for every product of the graph. Products of the same sizes
// share their operands, which are warm then. Of causal attention the whole square is multiplied.
std::shared_ptr<Graph> products_alone(const Graph& graph);

// Normal numbers, a few of them over and over. A GPU whose power is the limit multiplies zeros
// faster than what a model has.
void write_normal_numbers(Store& store, const std::string& name);

class ProductFloor {
 public:
  ProductFloor(const Graph& graph, const Device& device);

  void run() { work_->run(); }
  void finish() const;  // returns when the device is done

 private:
  Store store_;
  Program program_;
  std::unique_ptr<Recording> work_;
};

}  // namespace sigma1
