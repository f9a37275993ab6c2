// What an op really does to scale, by running it once on random inputs: the check on every scale
// rule, in tests and for users.
#pragma once

#include <vector>

#include "sigma1/graph/op.h"

namespace sigma1 {

struct Measured {
  double output = 0;              // scale of f(x) for unit inputs
  std::vector<double> gradients;  // of each input's gradient for unit incoming gradients; 0: none
};

// A random input of the kind the op takes. As initialised, biases are zero and masks let all pass;
// otherwise everything is random and a mask lets two of three pass.
Tensor sample_input(const OpDef& op, const OpView& view, size_t input, bool as_initialised,
                    uint64_t seed);

// Inputs are unit normal, or log-normal where the op wants positive ones; biases are what they
// start as, zero, where the op says so. Outputs are measured together.
Measured simulate(const OpDef& op, const std::vector<TensorType>& inputs,
                  const Attributes& attributes, Criterion criterion, uint64_t seed = 1);

// Root mean square, or standard deviation, of all numbers in the tensors.
double scale_of(const std::vector<const Tensor*>& tensors, Criterion criterion);

}  // namespace sigma1
