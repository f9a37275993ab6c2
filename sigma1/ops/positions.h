// Where a token stands, as numbers.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef sinusoids_op;

// [length, components]: sin and cos of the position, in pairs, with periods spread geometrically
// from 2 positions to `longest` (Dai et al., 2019; the paper's Appendix on character models).
Value sinusoids(Graph& graph, int64_t length, int64_t components, double longest);

}  // namespace sigma1
