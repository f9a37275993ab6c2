// One kernel on buffers of any format, in place or not, beside what its op's record gives.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/backend/simulate.h"

namespace sigma1::cpu {

struct KernelCase {
  const OpDef* op;
  std::vector<TensorType> inputs;
  Attributes attributes;
};

// A missing codec means fp32.
struct KernelRun {
  std::vector<const Codec*> input_codecs = {}, output_codecs = {};
  std::vector<float> factors = {};  // 1 where missing
  int in_place_input = -1;          // this one's buffer is output in_place_output's too
  size_t in_place_output = 0;
  uint64_t step = 3;
};

class KernelRunner {
 public:
  KernelRunner(const Kernel& kernel, const KernelCase& c);

  // The outputs as numbers.
  std::vector<std::vector<float>> run(const KernelRun& how = {}) const;
  // What the record gives for the inputs as their codecs leave them.
  std::vector<Tensor> expected(const KernelRun& how = {}) const;
  const std::vector<TensorType>& output_types() const { return output_types_; }

 private:
  const Kernel& kernel_;
  const KernelCase& case_;
  std::vector<Tensor> inputs_;
  std::vector<TensorType> output_types_;
};

}  // namespace sigma1::cpu
