// What unit scaling's factors cost in one training step, as ops of their own and after they are
// folded, beside what the paper estimates (Appendix "Computational overhead").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// Multiplications of tensors by constants that are not 1 in fp32.
struct ScalingCost {
  int64_t factors = 0;              // tensors that are multiplied
  int64_t multiplications = 0;      // one for each of their numbers
  int64_t in_products = 0;          // of these, of the results of matrix products, mostly as alpha
  int64_t bytes = 0;                // read and written for nothing but to multiply
  std::vector<std::string> passes;  // the nodes, or factors by the name of theirs, that do so
};

// Of a differentiated graph before fold(), as a framework without fusion runs it: each α, and each
// β where differentiate left an identity for it, reads a tensor and writes it again. A factor that
// the model itself asks for, in a scale or a weighted sum, is not counted. Needs a graph without
// dead nodes.
ScalingCost cost_of_separate_factors(const Graph& graph, int bytes_per_number);

// Of a graph after fold(): an op that computes anyway multiplies in registers, and moves no bytes
// for it. A node that only scales, or a view that had to become a copy, does. Factors of the model
// itself are in it, because folding mixes them with the others: what a regular model has too is
// known from its own folded graph.
ScalingCost cost_of_folded_factors(const Graph& graph, int bytes_per_number);

// The paper's two formulas, as shares of the FLOPs of matrix products.
struct PaperEstimate {
  // (1/6)·(1/b + 1/m + 1/n) over all products, by their FLOPs.
  double by_product_sizes = 0;
  // ops_per_matmul / (2·hidden_size)
  int64_t scaled_ops = 0, products = 0, hidden_size = 0;
  double ops_per_matmul() const;
  double by_hidden_size() const;
};

// Of a scaled forward graph. An attention is one scaled op and two products, three with relative
// positions.
PaperEstimate paper_estimate(const Graph& forward, int64_t hidden_size);

// All of it for one step.
struct StepScalingCost {
  int64_t product_flops = 0;
  ScalingCost separate;  // unit scaling's factors as ops of their own
  ScalingCost folded;    // all factors that are left in its folded graph, the model's own included
  ScalingCost regular;   // those in the folded graph of the model without it
  PaperEstimate paper;

  // As a share of the products' FLOPs.
  double share(const ScalingCost& cost) const;
};

}  // namespace sigma1
