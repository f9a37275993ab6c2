// What must hold of every graph; run after every pass, so that a pass that breaks it is named.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

// Throws Bug when a node precedes its inputs, its shapes do not follow from its rule, a factor is
// not a positive number, or two nodes share a name.
void verify(const Graph& graph);

}  // namespace sigma1
