#include <map>

#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/sources.h"
#include "sigma1/graph/storage.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/passes/lowering.h"

namespace sigma1 {
namespace {

// The loss a gradient node belongs to: the one of the same inputs and settings. −1 where the
// gradient of the loss itself is not a constant, and so not known here.
int loss_of(const Graph& graph, const Node& gradient) {
  if (graph.node(gradient.inputs.back().node).op != &constant_op) return -1;
  std::vector<Value> inputs(gradient.inputs.begin(), gradient.inputs.end() - 1);
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (node.op == &softmax_xent_op && node.inputs == inputs &&
        node.attributes == gradient.attributes) {
      return i;
    }
  }
  return -1;
}

}  // namespace

void fuse_loss(Graph& graph) {
  std::map<int, int> gradient_of;  // loss → its gradient
  for (int i = 0; i < graph.size(); ++i) {
    if (graph.node(i).op != &softmax_xent_grad_op) continue;
    int loss = loss_of(graph, graph.node(i));
    if (loss >= 0) gradient_of.emplace(loss, i);
  }
  std::map<int, Value> ready;  // gradient → where it is already
  rewrite(graph, [&](Rewriter& rewriter, int i) -> std::vector<Value> {
    if (ready.contains(i)) return {ready.at(i)};
    auto found = gradient_of.find(i);
    if (found == gradient_of.end()) return rewriter.copy(i);
    const Node &loss = rewriter.old().node(i), &gradient = rewriter.old().node(found->second);
    std::vector<Value> both =
        rewriter.fresh().append(softmax_xent_with_grad_op, rewriter.now(loss.inputs),
                                loss.attributes, loss.name + "_with_grad");
    const Node& seed = rewriter.old().node(gradient.inputs.back().node);
    double seed_value = seed.attributes.get<double>("value") * seed.factor(0);
    Node& node = rewriter.fresh().node(both.front().node);
    node.output_factors = {loss.factor(0), gradient.factor(0) * seed_value};
    node.storage = {storage(loss, 0), storage(gradient, 0)};
    ready[found->second] = both[1];
    return {both[0]};
  });
}

}  // namespace sigma1
