// How an op passes factors on. Two graphs of the same ops, which differ in factors alone (α,
// weights of sums, multipliers), compute the same when every value of the second is some s > 0
// times the first's; each op says how the s of what it reads and gives belong together.
#pragma once

#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

using InputGroup = std::vector<size_t>;  // inputs that are multiplied with each other

struct FactorConditions {
  // Every output is proportional to the product of each of these; several must agree. Of a sum they
  // are its terms, whose weights count as well. An empty one: outputs are what they are.
  std::vector<InputGroup> outputs;
  // The product of each, times the op's multiplier where it has one, must be what it was.
  std::vector<InputGroup> fixed;
};

// Throws Error, naming the node, where nothing is known. None for a parameter, and for indices.
FactorConditions factor_conditions(const Node& node);

bool is_norm(const Node& node);
bool is_sum(const Node& node);
// Of a sum's terms in the model.
std::vector<double> sum_weights(const Node& sum);

}  // namespace sigma1
