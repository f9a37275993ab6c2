#include <map>
#include <set>

#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/storage.h"
#include "sigma1/ops/attention.h"
#include "sigma1/passes/lowering.h"

namespace sigma1 {
namespace {

constexpr int kBitsToKeep = 16;

// The attention of the same inputs and settings before a gradient node; the last, which where
// layers are computed again is the one that is near. −1: none.
int attention_of(const Graph& graph, int gradient) {
  const Node& wanted = graph.node(gradient);
  std::vector<Value> inputs(wanted.inputs.begin(), wanted.inputs.end() - 1);
  for (int i = gradient - 1; i >= 0; --i) {
    const Node& node = graph.node(i);
    if (node.op == &attention_op && node.inputs == inputs && node.attributes == wanted.attributes) {
      return i;
    }
  }
  return -1;
}

// A y of few bits would make the gradient's mean a coarse one.
bool keeps_apart(const Node& attention) {
  return storage(attention, 0).format.bits() < kBitsToKeep;
}

std::vector<Value> append_kept(Rewriter& rewriter, const Node& attention) {
  Attributes attributes = attention.attributes;
  attributes.set(kKeepsResult, keeps_apart(attention));
  std::vector<Value> kept = rewriter.fresh().append(
      attention_kept_op, rewriter.now(attention.inputs), attributes, attention.name);
  Node& node = rewriter.fresh().node(kept.front().node);
  node.again = attention.again;
  node.output_factors = {attention.factor(0), 1};
  node.storage = {storage(attention, 0), storage_cast("fp32")};
  if (!keeps_apart(attention)) return kept;
  Value q = attention.inputs.front();
  Cast of_q = storage(rewriter.old().node(q.node), static_cast<size_t>(q.output));
  node.output_factors.push_back(1);
  node.storage.push_back(of_q.format.bits() == kBitsToKeep ? of_q : storage_cast("fp32"));
  return kept;
}

std::vector<Value> append_gradient(Rewriter& rewriter, const Node& gradient, const Node& attention,
                                   const std::vector<Value>& kept) {
  Attributes attributes = gradient.attributes;
  attributes.set(kResultFactor, keeps_apart(attention) ? 1 : attention.factor(0));
  std::vector<Value> inputs = rewriter.now(gradient.inputs);
  inputs.insert(inputs.end(), {keeps_apart(attention) ? kept[2] : kept[0], kept[1]});
  std::vector<Value> gradients =
      rewriter.fresh().append(attention_kept_grad_op, inputs, attributes, gradient.name);
  Node& node = rewriter.fresh().node(gradients.front().node);
  node.alpha = gradient.alpha;
  node.output_factors = gradient.output_factors;
  node.storage = gradient.storage;
  return gradients;
}

}  // namespace

void keep_attention(Graph& graph, const std::function<bool(const Graph&, int)>& wants) {
  std::map<int, int> attention_by_gradient;
  std::set<int> keeps;
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (node.op != &attention_grad_op || node.attributes.get<bool>("has_relative")) continue;
    int attention = attention_of(graph, i);
    if (attention < 0 || !wants(graph, i)) continue;
    attention_by_gradient[i] = attention;
    keeps.insert(attention);
  }
  std::map<int, std::vector<Value>> kept;  // by attention: y, logarithms, result
  rewrite(graph, [&](Rewriter& rewriter, int i) -> std::vector<Value> {
    const Node& node = rewriter.old().node(i);
    if (keeps.contains(i)) {
      kept[i] = append_kept(rewriter, node);
      return {kept[i].front()};
    }
    auto found = attention_by_gradient.find(i);
    if (found == attention_by_gradient.end()) return rewriter.copy(i);
    return append_gradient(rewriter, node, rewriter.old().node(found->second),
                           kept.at(found->second));
  });
}

}  // namespace sigma1
