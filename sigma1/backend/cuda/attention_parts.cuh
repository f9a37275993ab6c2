// What a graph is told of attention here: which reads queries, keys and values out of the rows of
// one product, and writes their gradients so, instead of tensors of their own; and whose gradient
// is to have what forward keeps. Private to this folder.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1::cuda {

// As Device::takes_parts and gives_parts.
bool attention_takes_parts(const Graph& graph, int node, size_t input);
bool attention_gives_parts(const Graph& graph, int node);
// As Device::keeps_attention.
bool keeps_attention(const Graph& graph, int node);

}  // namespace sigma1::cuda
