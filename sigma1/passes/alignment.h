// What a unit-scaled model is told of the plain one, so that it computes the same function (the
// paper's Appendix "Aligning"): settings of single nodes, made before factors are chosen.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

struct Alignment {
  std::map<std::string, std::vector<double>> weights;             // of sums, by the node's name
  std::map<std::string, std::map<std::string, double>> settings;  // other attributes, likewise

  bool empty() const { return weights.empty() && settings.empty(); }
  bool operator==(const Alignment&) const = default;
};

// Nodes that the graph does not have are left out.
void set_alignment(Graph& graph, const Alignment& alignment);

// An attribute: what a node gives, over what its rule makes of it. For a loss that must see its
// scores as the plain model has them, and where inputs are not independent, as a rule takes them.
inline constexpr const char* kGain = "gain";
double gain_of(const Node& node);

// Of a loss: what all gradients are multiplied by, so that they have unit scale where most are.
inline constexpr const char* kGradientGain = "gradient_gain";
// The mean square of the gradient that comes to the node's output, where rules take 1. Padding and
// heads that read a few positions leave rows without; a parameter's gradient, whose factor is free,
// is then less of a sum.
inline constexpr const char* kGradientSquare = "gradient_square";

}  // namespace sigma1
