// Where a token stands, as numbers.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef sinusoids_op, rotary_op;

// [length, components]: sin and cos of the position, in pairs, with periods spread geometrically
// from 2 positions to `longest` (Dai et al., 2019; the paper's Appendix on character models).
Value sinusoids(Graph& graph, int64_t length, int64_t components, double longest);

struct RotaryOptions {
  int64_t heads = 1;     // each has d = width / heads numbers of a vector, in pairs
  double base = 10000;   // Su et al. (2021)
  bool inverse = false;  // back again: the gradient
};
// x[batch, time, heads·d] with pair j of each head at position t, its numbers j and j + d/2, turned
// by the angle t·base^(−2j/d): products of what is turned depend on distances alone.
Value rotary(Value x, const RotaryOptions& options = {});

}  // namespace sigma1
