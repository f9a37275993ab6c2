// The matrix products of a graph and what they take: the measure that all other work of a training
// step is held against.
#pragma once

#include <cstdint>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// R^{b×n} × R^{n×m}, `count` times.
struct MatrixProduct {
  int64_t b = 0, n = 0, m = 0, count = 1;
  // Of the b·n·m terms those that are wanted: a causal attention's, about half, are the pairs of
  // positions that see each other, and a convolution's read no padding.
  double share = 1;

  // A multiplication and an addition for each term.
  int64_t flops() const;
};

// What a node multiplies; none for most ops. A gradient's products are those that the gradient
// itself needs: what a kernel computes again from forward is not counted.
std::vector<MatrixProduct> matrix_products(const Node& node);

int64_t product_flops(const Graph& graph);

}  // namespace sigma1
