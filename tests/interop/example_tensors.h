// Inputs, and outputs as expected/NAME, in a safetensors file for others to run.
#pragma once

#include <string>
#include <vector>

#include "sigma1/graph/tensor.h"
#include "sigma1/runtime/safetensors.h"

namespace sigma1 {

class ExampleTensors {
 public:
  void add(const std::string& name, const Tensor& tensor, Kind kind = Kind::real);
  void expect(const std::string& name, const Tensor& tensor) { add("expected/" + name, tensor); }
  void write(const std::string& path);

 private:
  template <class T>
  void add_as(const std::string& name, const std::string& dtype, const Tensor& tensor);

  std::vector<StoredTensor> tensors_;
  std::vector<std::string> data_;
};

}  // namespace sigma1
