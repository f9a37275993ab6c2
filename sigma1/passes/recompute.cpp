#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "sigma1/base/error.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/lowering.h"

namespace sigma1 {
namespace {

constexpr std::array kNorms{&layer_norm_op, &rms_norm_op};
constexpr std::array kActivations{&relu_op, &gelu_op,    &gelu_tanh_op, &tanh_op,
                                  &silu_op, &sigmoid_op, &softplus_op,  &mul_op};

template <class Ops>
bool is_one_of(const Ops& ops, const OpDef* op) {
  return std::ranges::find(ops, op) != ops.end();
}

// The first part of a node's path where it is numbered, "layer3"; else nothing.
std::string_view block_of(const Node& node) {
  std::string_view name = node.name;
  std::string_view first = name.substr(0, name.find('/'));
  bool numbered =
      first.size() < name.size() && std::isdigit(static_cast<unsigned char>(first.back()));
  return numbered ? first : std::string_view{};
}

// By node of a differentiated graph: whether backward computes it again.
class Forgotten {
 public:
  Forgotten(const Graph& graph, Recompute what)
      : graph_(graph), is_gradient_(gradient_nodes(graph)) {
    for (int i = 0; i < graph.size(); ++i) {
      begin_ = begin_ == 0 && is_gradient(i) ? i : begin_;
      forgotten_.push_back(can_be_computed_again(i) && (is_of_backward(i) || is_wanted(i, what)));
    }
    if (what == Recompute::blocks) keep_what_leaves_blocks();
  }

  bool operator[](int node) const { return forgotten_[static_cast<size_t>(node)]; }
  bool is_gradient(int node) const { return is_gradient_[static_cast<size_t>(node)]; }

 private:
  // What backward makes of forward values before it reads them: a reshape, a cast.
  bool is_of_backward(int i) const { return begin_ > 0 && i > begin_; }

  bool can_be_computed_again(int i) const {
    const Node& node = graph_.node(i);
    bool random = node.op == &dropout_op || std::ranges::any_of(node.storage, [](const Cast& cast) {
                    return cast.rounding == Rounding::stochastic;
                  });
    // Casts of weights are small beside what the layers compute.
    bool of_sources = std::ranges::all_of(
        node.inputs, [&](Value input) { return graph_.node(input.node).inputs.empty(); });
    return !is_gradient(i) && !of_sources && !random;
  }

  bool is_wanted(int i, Recompute what) const {
    const Node& node = graph_.node(i);
    if (what == Recompute::blocks) return !block_of(node).empty();
    // A cast of what is not kept is not kept either.
    bool is_cast = node.op == &identity_op && (*this)[node.inputs.front().node];
    if (what == Recompute::norms) return is_cast || is_one_of(kNorms, node.op);
    return what == Recompute::activations && (is_cast || is_one_of(kActivations, node.op));
  }

  void keep_what_leaves_blocks() {
    for (int i = 0; i < graph_.size(); ++i) {
      if (is_gradient(i) || is_of_backward(i)) continue;
      for (Value input : graph_.node(i).inputs) {
        bool leaves = block_of(graph_.node(input.node)) != block_of(graph_.node(i));
        if (leaves) forgotten_[static_cast<size_t>(input.node)] = false;
      }
    }
    for (const auto& [name, value] : graph_.outputs()) {
      forgotten_[static_cast<size_t>(value.node)] = false;
    }
  }

  const Graph& graph_;
  std::vector<bool> is_gradient_, forgotten_;
  int begin_ = 0;  // of backward
};

}  // namespace

Recompute parse_recompute(std::string_view text) {
  if (text == "none") return Recompute::nothing;
  if (text == "norms") return Recompute::norms;
  if (text == "activations") return Recompute::activations;
  if (text == "blocks") return Recompute::blocks;
  throw Error("recompute: expected none, norms, activations or blocks, got '{}'", text);
}

void recompute(Graph& graph, Recompute what) {
  if (what == Recompute::nothing) return;
  Forgotten forgotten(graph, what);
  std::map<int, std::vector<Value>> again;  // old node → its second copy
  rewrite(graph, [&](Rewriter& rewriter, int i) {
    if (!forgotten.is_gradient(i)) return rewriter.copy(i);
    const Graph& old = rewriter.old();
    // What stands for an old value in backward, computed now if need be.
    auto late = [&](auto& self, Value value) -> Value {
      if (!forgotten[value.node]) return rewriter.now(value);
      if (!again.contains(value.node)) {
        std::vector<Value> inputs;
        for (Value input : old.node(value.node).inputs) inputs.push_back(self(self, input));
        again[value.node] = rewriter.copy(value.node, inputs, "again/" + old.node(value.node).name);
        rewriter.fresh().node(again[value.node].front().node).again = true;
      }
      return again[value.node][static_cast<size_t>(value.output)];
    };
    std::vector<Value> inputs;
    for (Value input : old.node(i).inputs) inputs.push_back(late(late, input));
    return rewriter.copy(i, inputs, old.node(i).name);
  });
}

}  // namespace sigma1
