#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/shape.h"
#include "sigma1/passes/lowering.h"

namespace sigma1 {
namespace {

// Matrix products are left to libraries, which store what they like.
bool can_store_anything(const OpDef& op) {
  return !is_source(op) && &op != &reshape_op && &op != &matmul_op && &op != &linear_op &&
         !op.rounds_itself;
}

// Whether a node only stores its input in another format, and nobody else reads that input.
bool can_merge(const Graph& graph, const std::vector<std::vector<int>>& uses, const Node& cast) {
  if (cast.op != &identity_op || cast.factor(0) != 1 || cast.storage.empty()) return false;
  Value from = cast.inputs.front();
  const Node& maker = graph.node(from.node);
  int readers = uses[static_cast<size_t>(from.node)][static_cast<size_t>(from.output)];
  return readers == 1 && !maker.storage.empty() && can_store_anything(*maker.op);
}

}  // namespace

void merge_casts(Graph& graph) {
  std::vector<std::vector<int>> uses = count_uses(graph);
  rewrite(graph, [&](Rewriter& rewriter, int i) {
    const Node& node = rewriter.old().node(i);
    if (!can_merge(rewriter.old(), uses, node)) return rewriter.copy(i);
    Value from = rewriter.now(node.inputs.front());
    Node& maker = rewriter.fresh().node(from.node);
    maker.storage[static_cast<size_t>(from.output)] = node.storage.front();
    return std::vector<Value>{from};
  });
}

}  // namespace sigma1
