#include "sigma1/runtime/row_parts.h"

#include <algorithm>
#include <set>

#include "sigma1/backend/node_call.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/ops/shape.h"
#include "sigma1/runtime/store.h"

namespace sigma1 {
namespace {

class Finder {
 public:
  Finder(const Graph& graph, const Device& device)
      : graph_(graph), device_(device), uses_(count_uses(graph)) {
    for (const auto& [name, value] : graph.outputs()) marked_.insert({value.node, value.output});
  }

  std::vector<RowParts> run() {
    std::vector<RowParts> found;
    for (int i = 0; i < graph_.size(); ++i) {
      const OpDef* op = graph_.node(i).op;
      if (op == &split_op && is_plain(i) && all_readers_take_parts(i)) found.push_back(split(i));
      if (op == &concat_op && is_plain(i) && all_writers_give_parts(i)) found.push_back(joined(i));
    }
    return found;
  }

 private:
  Value output(int node, size_t o) const {
    return {const_cast<Graph*>(&graph_), node, static_cast<int>(o)};
  }

  // Along the last axis, neither scaling nor casting, and of parts that begin on 16 bytes.
  bool is_plain(int i) const {
    const Node& node = graph_.node(i);
    int64_t axis = node.attributes.get<int64_t>("axis"), rank = node.outputs.front().rank();
    bool plain = axis == rank - 1 || axis == -1;
    const Value from = node.inputs.front();
    const Cast stored = storage(graph_.node(from.node), static_cast<size_t>(from.output));
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      plain &= node.factor(o) == 1 && storage(node, o) == stored;
      plain &= !marked_.contains({i, static_cast<int>(o)});
    }
    const std::vector<TensorType> parts = node.op == &split_op ? node.outputs : node.input_types();
    constexpr int64_t kAligned = 16;
    for (const TensorType& part : parts) {
      plain &= part.dim(-1) * element_bytes(part.kind, stored) % kAligned == 0;
    }
    return plain;
  }

  bool all_readers_take_parts(int node) const {
    for (int i = node + 1; i < graph_.size(); ++i) {
      const std::vector<Value>& inputs = graph_.node(i).inputs;
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (inputs[k].node == node && !device_.takes_parts(graph_, i, k)) return false;
      }
    }
    return true;
  }

  bool all_writers_give_parts(int node) const {
    for (Value part : graph_.node(node).inputs) {
      auto output = static_cast<size_t>(part.output);
      const Node& writer = graph_.node(part.node);
      bool alone = uses_[static_cast<size_t>(part.node)][output] == 1;
      bool alike = storage(writer, output) == storage(graph_.node(node), 0);
      if (!alone || !alike || !device_.gives_parts(graph_, part.node, output)) return false;
    }
    return true;
  }

  RowParts split(int i) const {
    RowParts result{i, graph_.node(i).inputs.front(), {}};
    int64_t first = 0;
    for (size_t o = 0; o < graph_.node(i).outputs.size(); ++o) {
      result.parts.push_back({output(i, o), first});
      first += graph_.node(i).outputs[o].dim(-1);
    }
    return result;
  }

  RowParts joined(int i) const {
    RowParts result{i, output(i, 0), {}};
    int64_t first = 0;
    for (Value part : graph_.node(i).inputs) {
      result.parts.push_back({part, first});
      first += part.type().dim(-1);
    }
    return result;
  }

  const Graph& graph_;
  const Device& device_;
  std::vector<std::vector<int>> uses_;
  std::set<std::pair<int, int>> marked_;  // outputs of the graph
};

}  // namespace

std::vector<RowParts> find_row_parts(const Graph& graph, const Device& device) {
  return Finder(graph, device).run();
}

}  // namespace sigma1
