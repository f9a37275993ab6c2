#include "sigma1/runtime/placement.h"

#include <algorithm>
#include <set>

#include "sigma1/base/error.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/positions.h"
#include "sigma1/ops/shape.h"
#include "sigma1/runtime/placed_values.h"
#include "sigma1/runtime/row_parts.h"
#include "sigma1/runtime/store.h"

namespace sigma1 {
namespace {

bool is_bound(const Node& node) { return node.op == &input_op || node.op == &parameter_op; }
bool is_constant(const Node& node) { return node.op == &constant_op || node.op == &sinusoids_op; }

class Placer {
 public:
  Placer(const Graph& graph, const std::map<std::string, std::string>& stored, Fusion fusion,
         const Device& device)
      : graph_(graph),
        fusion_(fusion),
        device_(device),
        views_(find_views(graph)),
        uses_(count_uses(graph)),
        values_{graph, device} {
    for (const auto& [name, value] : graph.outputs()) {
      auto found = stored.find(name);
      if (found == stored.end()) continue;
      const Node& node = graph.node(value.node);
      const Place& there = values_.place(id(value));
      bool elsewhere = there.kind == Place::Kind::store && there.stored_name != found->second;
      if (elsewhere || is_constant(node) || (is_bound(node) && node.name != found->second)) {
        throw Bug("{}: {} lies elsewhere and would have to be copied", found->second, node.name);
      }
      bind(id(value), found->second);
    }
  }

  Placement run() {
    group_nodes();
    alias_views();
    if (fusion_ == Fusion::chains) alias_row_parts();
    find_turned();
    reuse_inputs(values_);
    plan_places(values_, plan_);
    plan_.groups = std::move(values_.groups);
    return std::move(plan_);
  }

 private:
  int id(Value value) const { return values_.roots.id(value); }
  int root(Value value) const { return values_.roots.root_of(value); }
  Value value(int node, size_t output) const { return values_.roots.value(node, output); }
  void bind(int id, const std::string& stored_name) {
    values_.place(id).kind = Place::Kind::store;
    values_.place(id).stored_name = stored_name;
  }

  void group_nodes() {
    for (int i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        int each = id(value(i, o));
        values_.type(each) = {node.outputs[o].kind, storage(node, o), node.outputs[o].count()};
        if (is_bound(node)) bind(each, node.name);
        if (is_constant(node)) values_.place(each).kind = Place::Kind::constant;
      }
      if (node.op->rounds_itself) values_.place(id(value(i, 0))).scale = plan_.scale_count++;
      if (is_constant(node)) plan_.constant_nodes.push_back(i);
    }
    Grouping grouping{.is_pointwise = [](const Node&) { return false; }};
    if (fusion_ == Fusion::chains) grouping = device_.grouping(graph_);
    for (NodeGroup& group : sigma1::group_nodes(graph_, grouping)) {
      const Node& node = graph_.node(group.nodes.back());
      if (!is_bound(node) && !is_constant(node)) values_.groups.push_back(std::move(group));
    }
    hide_inner_values();
  }

  // What only its own group reads is never in memory.
  void hide_inner_values() {
    for (int i = 0; i < graph_.size(); ++i) {
      if (views_[static_cast<size_t>(i)])
        values_.roots.join(id(value(i, 0)), root(graph_.node(i).inputs.front()));
    }
    std::vector<int> group_of(static_cast<size_t>(graph_.size()), -1);
    for (size_t g = 0; g < values_.groups.size(); ++g) {
      for (int node : values_.groups[g].nodes)
        group_of[static_cast<size_t>(node)] = static_cast<int>(g);
    }
    std::set<int> seen_outside;
    for (int i = 0; i < graph_.size(); ++i) {
      if (views_[static_cast<size_t>(i)]) continue;
      for (Value input : graph_.node(i).inputs) {
        int from = behind_views(graph_, views_, input).node;
        int own = group_of[static_cast<size_t>(i)];
        if (own < 0 || own != group_of[static_cast<size_t>(from)]) seen_outside.insert(root(input));
      }
    }
    for (const auto& [name, value] : graph_.outputs()) seen_outside.insert(root(value));
    for (const NodeGroup& group : values_.groups) {
      if (group.nodes.size() == 1) continue;
      for (int i : group.nodes) {
        const std::vector<int>& uses = uses_[static_cast<size_t>(i)];
        for (size_t o = 0; o < uses.size(); ++o) {
          int each = id(value(i, o));
          if (uses[o] > 0 && !seen_outside.contains(each))
            values_.place(each).kind = Place::Kind::none;
        }
      }
    }
  }

  // A view that is an output of the graph is still its input by another name, where that can be.
  void alias_views() {
    std::erase_if(values_.groups, [&](const NodeGroup& group) {
      const Node& node = graph_.node(group.nodes.back());
      bool view = group.nodes.size() == 1 && (node.op == &reshape_op || node.op == &identity_op);
      if (!view || node.factor(0) != 1) return false;
      int input = root(node.inputs.front()), output = id(value(group.nodes.back(), 0));
      Place &from = values_.place(input), &to = values_.place(output);
      if (!(values_.type(input).cast == values_.type(output).cast)) return false;
      if (to.kind == Place::Kind::store) {
        if (from.kind != Place::Kind::arena) return false;
        bind(input, to.stored_name);
      }
      values_.roots.join(output, input);
      return true;
    });
  }

  // Parts lie in the whole, and what cuts it or puts it together does not run.
  void alias_row_parts() {
    for (const RowParts& each : find_row_parts(graph_, device_)) {
      int whole = root(each.whole);
      auto lies_alone = [&](const RowParts::Part& part) {
        return part.value.node == each.node || values_.roots.is_root(id(part.value));
      };
      bool in_arena = values_.place(whole).kind == Place::Kind::arena;
      if (!in_arena || !std::ranges::all_of(each.parts, lies_alone)) continue;
      for (const RowParts::Part& part : each.parts) {
        int part_id = id(part.value);
        const StoredType& type = values_.type(part_id);
        values_.roots.join(part_id, whole);
        values_.parts[part_id] = {part.first * element_bytes(type.kind, type.cast),
                                  each.whole.type().dim(-1)};
      }
      std::erase_if(values_.groups, [&](const NodeGroup& group) {
        return group.nodes.size() == 1 && group.nodes.front() == each.node;
      });
    }
  }

  // What a product reads the other way round is kept in both orientations, unless a view gave it
  // another width in between. Of what the store has, inputs only: others have written those.
  void find_turned() {
    for (int i = 0; i < graph_.size(); ++i) {
      const std::vector<Value>& inputs = graph_.node(i).inputs;
      for (size_t k = 0; k < inputs.size(); ++k) {
        int each = root(inputs[k]);
        Place::Kind kind = values_.place(each).kind;
        bool is_input = graph_.node(values_.roots.node_of(each)).op == &input_op;
        bool can_be = kind == Place::Kind::arena || (kind == Place::Kind::store && is_input);
        if (!can_be || !device_.reads_turned(graph_, i, k)) continue;
        int64_t width = inputs[k].shape().back();
        if (width == values_.roots.width_of(each)) values_.type(each).turned_width = width;
      }
    }
  }

  const Graph& graph_;
  Fusion fusion_;
  const Device& device_;
  std::vector<bool> views_;             // by node
  std::vector<std::vector<int>> uses_;  // by node and output
  PlacedValues values_;
  Placement plan_;
};

}  // namespace

Placement place_values(const Graph& graph, const std::map<std::string, std::string>& stored,
                       Fusion fusion, const Device& device) {
  return Placer(graph, stored, fusion, device).run();
}

}  // namespace sigma1
