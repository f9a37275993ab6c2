// One conformance case per way of using an op. From it the suite checks the forward against an
// independent formula, the gradient against finite differences, and unit scale by simulation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sigma1/graph/op.h"

namespace sigma1 {

struct ConformanceCase {
  std::string label;
  const OpDef* op;
  // Small, for exact checks; sizes all different, so that a swapped axis shows.
  std::vector<TensorType> inputs;
  Attributes attributes;
  // What the op should give, written differently from the op itself.
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> expected;
  // Large, for statistics and for the work of many threads; may be empty for ops without a scale
  // rule.
  std::vector<TensorType> large_inputs;
  Attributes large_attributes;
  // How far from 1 the simulated scale may be: 3 %, more only where the rule is an approximation
  // that docs/numerics.md lists with its measured value.
  double scale_tolerance = 0.03;
};

// Each family's cases live in the file of its name.
std::vector<ConformanceCase> attention_cases();
std::vector<ConformanceCase> cast_cases();
std::vector<ConformanceCase> collective_cases();
std::vector<ConformanceCase> conv_cases();
std::vector<ConformanceCase> embedding_cases();
std::vector<ConformanceCase> linear_cases();
std::vector<ConformanceCase> norm_cases();
std::vector<ConformanceCase> pointwise_cases();
std::vector<ConformanceCase> positions_cases();
std::vector<ConformanceCase> recurrent_cases();
std::vector<ConformanceCase> reduce_cases();
std::vector<ConformanceCase> residual_cases();
std::vector<ConformanceCase> shape_cases();
std::vector<ConformanceCase> softmax_cases();
std::vector<ConformanceCase> update_cases();

// All of them, in one order.
const std::vector<ConformanceCase>& all_cases();
// More shapes, without formulas.
std::vector<ConformanceCase> cut_shape_cases();
// For a test's name: the op, the label and the number, in letters that a test's name may have.
std::string case_name(const ConformanceCase& c, size_t number);

}  // namespace sigma1
