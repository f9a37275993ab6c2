// The passes between a differentiated graph and a program: where factors go, which format a tensor
// is stored in, what runs together. All may change structure: only names survive them.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sigma1/graph/graph.h"
#include "sigma1/passes/precision.h"

namespace sigma1 {

// Nodes that only scale (identity and scale) give their factor to the node before them, or to all
// that read them, and vanish. What remains of them is read by something that is not linear.
// Reshapes pass factors on, so that they are names and nothing is computed for them.
// Needs nothing; before lower_precision, after which an identity may be a cast.
void fold(Graph& graph);

// Gives every tensor its storage, and casts before the matrix products that ask for fewer bits.
// Needs the backward graph to start at a node named kGradientSeed.
void lower_precision(Graph& graph, const Precision& precision);

// What only a cast reads is stored as the cast would have it, by the op that computes it, and the
// cast vanishes: one rounding instead of two, and one pass over memory less. After lower_precision.
void merge_casts(Graph& graph);

// What backward reads of forward and shall not be kept for it: each is computed again when it is
// needed, from what is kept, with the same bits.
enum class Recompute {
  nothing,
  norms,
  activations,  // also what gates them
  blocks,       // all inside of a layer: only what passes between layers is kept
};
Recompute parse_recompute(std::string_view text);  // Throws Error.
// Before fuse_loss, after what gives storage.
void recompute(Graph& graph, Recompute what);

// Forward keeps what the gradients of attention would compute again, for those that are wanted, of
// nodes `attention_grad` by their number, and whose attention has no relative positions. After
// recompute, when factors and storage are final.
void keep_attention(Graph& graph, const std::function<bool(const Graph&, int gradient)>& wants);

// One node for a loss and its gradient, where the loss's own gradient is a constant.
void fuse_loss(Graph& graph);

// A parameter in the format that products read it in, kept from step to step.
struct WeightCopy {
  std::string parameter, name;
  Shape shape;
  Cast cast;
};
// Casts of parameters become inputs: whoever changes a parameter writes its copies too, and no
// batch casts it again. Which they are, each once. Scales found at run time are left where they
// are. The last pass: parameters stay in the graph, read or not.
std::vector<WeightCopy> keep_weight_casts(Graph& graph);
// Those that nodes or outputs of the graph read themselves.
std::set<std::string> parameters_read(const Graph& graph);

}  // namespace sigma1
