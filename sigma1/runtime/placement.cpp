#include "sigma1/runtime/placement.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "sigma1/base/error.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/positions.h"
#include "sigma1/ops/shape.h"
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
        uses_(count_uses(graph)) {
    for (const Node& node : graph.nodes()) {
      first_id_.push_back(static_cast<int>(root_.size()));
      for (size_t o = 0; o < node.outputs.size(); ++o)
        root_.push_back(static_cast<int>(root_.size()));
    }
    places_.resize(root_.size());
    types_.resize(root_.size());
    for (const auto& [name, value] : graph.outputs()) {
      auto found = stored.find(name);
      if (found == stored.end()) continue;
      const Node& node = graph.node(value.node);
      const Place& there = place(id(value));
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
    find_lifetimes();
    overwrite_inputs();
    check_stored();
    return plan();
  }

 private:
  int id(Value value) const { return first_id_[static_cast<size_t>(value.node)] + value.output; }
  int root(Value value) const { return root_of(id(value)); }
  int root_of(int id) const {
    while (root_[static_cast<size_t>(id)] != id) id = root_[static_cast<size_t>(id)];
    return id;
  }
  Place& place(int id) { return places_[static_cast<size_t>(id)]; }
  void bind(int id, const std::string& stored_name) {
    place(id).kind = Place::Kind::store;
    place(id).stored_name = stored_name;
  }
  Value value(int node, size_t output) const {
    return {const_cast<Graph*>(&graph_), node, static_cast<int>(output)};
  }

  void group_nodes() {
    for (int i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        int each = id(value(i, o));
        types_[static_cast<size_t>(each)] = {node.outputs[o].kind, storage(node, o),
                                             node.outputs[o].count()};
        if (is_bound(node)) bind(each, node.name);
        if (is_constant(node)) place(each).kind = Place::Kind::constant;
      }
      if (node.op->rounds_itself) place(id(value(i, 0))).scale = scale_count_++;
      if (is_constant(node)) constant_nodes_.push_back(i);
    }
    Grouping grouping{.is_pointwise = [](const Node&) { return false; }};
    if (fusion_ == Fusion::chains) grouping = device_.grouping(graph_);
    for (NodeGroup& group : sigma1::group_nodes(graph_, grouping)) {
      const Node& node = graph_.node(group.nodes.back());
      if (!is_bound(node) && !is_constant(node)) groups_.push_back(std::move(group));
    }
    hide_inner_values();
  }

  // What only its own group reads is never in memory.
  void hide_inner_values() {
    for (int i = 0; i < graph_.size(); ++i) {
      if (views_[static_cast<size_t>(i)]) {
        root_[static_cast<size_t>(id(value(i, 0)))] = root(graph_.node(i).inputs.front());
      }
    }
    std::vector<int> group_of(static_cast<size_t>(graph_.size()), -1);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (int node : groups_[g].nodes) group_of[static_cast<size_t>(node)] = static_cast<int>(g);
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
    for (const NodeGroup& group : groups_) {
      if (group.nodes.size() == 1) continue;
      for (int i : group.nodes) {
        int each = id(value(i, 0));
        bool read_inside =
            !uses_[static_cast<size_t>(i)].empty() && uses_[static_cast<size_t>(i)].front() > 0;
        if (read_inside && !seen_outside.contains(each)) place(each).kind = Place::Kind::none;
      }
    }
  }

  // A view that is an output of the graph is still its input by another name, where that can be.
  void alias_views() {
    std::erase_if(groups_, [&](const NodeGroup& group) {
      const Node& node = graph_.node(group.nodes.back());
      bool view = group.nodes.size() == 1 && (node.op == &reshape_op || node.op == &identity_op);
      if (!view || node.factor(0) != 1) return false;
      int input = root(node.inputs.front()), output = id(value(group.nodes.back(), 0));
      Place &from = place(input), &to = place(output);
      if (!(types_[static_cast<size_t>(input)].cast == types_[static_cast<size_t>(output)].cast)) {
        return false;
      }
      if (to.kind == Place::Kind::store) {
        if (from.kind != Place::Kind::arena) return false;
        bind(input, to.stored_name);
      }
      root_[static_cast<size_t>(output)] = input;
      return true;
    });
  }

  // Parts lie in the whole, and what cuts it or puts it together does not run.
  void alias_row_parts() {
    for (const RowParts& each : find_row_parts(graph_, device_)) {
      int whole = root(each.whole);
      auto lies_alone = [&](const RowParts::Part& part) {
        return part.value.node == each.node || root(part.value) == id(part.value);
      };
      bool in_arena = place(whole).kind == Place::Kind::arena;
      if (!in_arena || !std::ranges::all_of(each.parts, lies_alone)) continue;
      for (const RowParts::Part& part : each.parts) {
        auto index = static_cast<size_t>(id(part.value));
        root_[index] = whole;
        parts_[id(part.value)] = {
            part.first * element_bytes(types_[index].kind, types_[index].cast),
            each.whole.type().dim(-1)};
      }
      std::erase_if(groups_, [&](const NodeGroup& group) {
        return group.nodes.size() == 1 && group.nodes.front() == each.node;
      });
    }
  }

  // What a product reads the other way round is kept in both orientations, unless a view gave it
  // another width in between.
  void find_turned() {
    for (int i = 0; i < graph_.size(); ++i) {
      const std::vector<Value>& inputs = graph_.node(i).inputs;
      for (size_t k = 0; k < inputs.size(); ++k) {
        int each = root(inputs[k]);
        if (place(each).kind != Place::Kind::arena || !device_.reads_turned(graph_, i, k)) continue;
        int64_t width = inputs[k].shape().back();
        if (width == width_of(each)) types_[static_cast<size_t>(each)].turned_width = width;
      }
    }
  }

  // What computes the value with this id.
  int node_of(int id) const {
    return static_cast<int>(std::ranges::upper_bound(first_id_, id) - first_id_.begin() - 1);
  }
  // Of that value, as the node has it.
  int64_t width_of(int id) const {
    int node = node_of(id), output = id - first_id_[static_cast<size_t>(node)];
    return value(node, static_cast<size_t>(output)).shape().back();
  }

  void find_lifetimes() {
    first_.assign(root_.size(), -1);
    last_.assign(root_.size(), -1);
    for (int t = 0; t < static_cast<int>(groups_.size()); ++t) {
      for (int i : groups_[static_cast<size_t>(t)].nodes) {
        for (Value input : graph_.node(i).inputs) last_[static_cast<size_t>(root(input))] = t;
        for (size_t o = 0; o < graph_.node(i).outputs.size(); ++o) {
          auto each = static_cast<size_t>(root(value(i, o)));
          if (first_[each] < 0) first_[each] = t;
          last_[each] = std::max(last_[each], t);
        }
      }
    }
    int end = static_cast<int>(groups_.size());
    for (const auto& [name, value] : graph_.outputs())
      last_[static_cast<size_t>(root(value))] = end;
  }

  // An output takes its input's bytes where the kernel allows it and nobody needs the input later.
  void overwrite_inputs() {
    for (int t = 0; t < static_cast<int>(groups_.size()); ++t) {
      const NodeGroup& group = groups_[static_cast<size_t>(t)];
      bool may = group.kind == NodeGroup::Kind::single || group.kind == NodeGroup::Kind::pointwise;
      const Node& node = graph_.node(group.nodes.back());
      for (size_t o = 0; may && o < node.outputs.size(); ++o) {
        int output = id(value(group.nodes.back(), o));
        if (root_of(output) == output && place(output).kind == Place::Kind::arena) {
          overwrite_input(t, group.nodes, o, output);
        }
      }
    }
  }

  void overwrite_input(int t, const std::vector<int>& group, size_t output_index, int output) {
    for (int i : group) {
      const Node& node = graph_.node(i);
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        bool allowed = group.size() > 1 || may_overwrite(node, k, output_index);
        int input = root(node.inputs[k]);
        if (!allowed || place(input).kind != Place::Kind::arena || reads(group, input) != 1)
          continue;
        auto from = static_cast<size_t>(input), to = static_cast<size_t>(output);
        if (last_[from] != t || first_[from] == t || !(types_[from] == types_[to])) continue;
        root_[to] = input;
        last_[from] = last_[to];
        return;
      }
    }
  }

  bool may_overwrite(const Node& node, size_t input, size_t output) const {
    const Kernel& kernel = device_.find_kernel(*node.op);
    return kernel.in_place != nullptr && kernel.in_place(input, output);
  }

  int reads(const std::vector<int>& group, int wanted) const {
    int count = 0;
    for (int i : group) {
      for (Value input : graph_.node(i).inputs) count += root(input) == wanted ? 1 : 0;
    }
    return count;
  }

  // What is written to the store must not be read afterwards under its old meaning.
  void check_stored() {
    std::map<std::string, int> sources;
    for (int i = 0; i < graph_.size(); ++i) {
      if (is_bound(graph_.node(i))) sources[graph_.node(i).name] = i;
    }
    for (int t = 0; t < static_cast<int>(groups_.size()); ++t) {
      for (int writer : groups_[static_cast<size_t>(t)].nodes) check_writer(t, writer, sources);
    }
  }

  void check_writer(int t, int writer, const std::map<std::string, int>& sources) {
    const NodeGroup& group = groups_[static_cast<size_t>(t)];
    const Node& node = graph_.node(writer);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Place& written = place(root(value(writer, o)));
      if (written.kind != Place::Kind::store) continue;
      auto source = sources.find(written.stored_name);
      if (source == sources.end()) continue;
      int old_value = root(value(source->second, 0));
      int last = last_[static_cast<size_t>(old_value)];
      bool in_place = group.kind == NodeGroup::Kind::pointwise;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        in_place = in_place || (root(node.inputs[k]) == old_value && may_overwrite(node, k, o) &&
                                reads(group.nodes, old_value) == 1);
      }
      if (last > t || (last == t && !in_place)) {
        throw Bug("{} overwrites {}, which is still read", node.name, written.stored_name);
      }
    }
  }

  Placement plan() {
    Placement result;
    result.arena = plan_kind(Place::Kind::arena);
    result.constants = plan_kind(Place::Kind::constant);
    result.at_peak = std::move(at_peak_);
    result.groups = std::move(groups_);
    result.constant_nodes = std::move(constant_nodes_);
    result.scale_count = scale_count_;
    for (int i = 0; i < graph_.size(); ++i) {
      result.places.emplace_back();
      for (size_t o = 0; o < graph_.node(i).outputs.size(); ++o) {
        Place there = place(root(value(i, o)));
        if (auto part = parts_.find(id(value(i, o))); part != parts_.end()) {
          there.offset += part->second.bytes;
          there.pitch = part->second.pitch;
          there.turned = -1;
        }
        result.places.back().push_back(std::move(there));
      }
    }
    return result;
  }

  MemoryPlan plan_kind(Place::Kind kind) {
    std::vector<Lifetime> lifetimes;
    std::vector<int> roots;
    int end = static_cast<int>(groups_.size());
    for (int each = 0; each < static_cast<int>(root_.size()); ++each) {
      if (root_of(each) != each || place(each).kind != kind) continue;
      auto index = static_cast<size_t>(each);
      int64_t bytes = bytes_of(types_[index]);
      if (types_[index].turned_width > 0) bytes *= 2;
      bool lasts = kind == Place::Kind::constant;
      lifetimes.push_back({lasts ? 0 : first_[index], lasts ? end : last_[index], bytes});
      roots.push_back(each);
    }
    MemoryPlan plan = plan_memory(lifetimes);
    if (kind == Place::Kind::arena) find_peak(lifetimes, roots);
    for (size_t i = 0; i < roots.size(); ++i) {
      const StoredType& type = types_[static_cast<size_t>(roots[i])];
      Place& there = place(roots[i]);
      there.offset = plan.offsets[i];
      if (type.turned_width == 0) continue;
      there.turned = there.offset + bytes_of(type);
      there.turned_width = type.turned_width;
    }
    return plan;
  }

  void find_peak(const std::vector<Lifetime>& lifetimes, const std::vector<int>& roots) {
    std::vector<int64_t> held(groups_.size() + 1);
    for (const Lifetime& each : lifetimes) {
      for (int t = each.first; t <= each.last; ++t) held[static_cast<size_t>(t)] += each.bytes;
    }
    auto peak = static_cast<int>(std::ranges::max_element(held) - held.begin());
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      if (lifetimes[i].first > peak || lifetimes[i].last < peak) continue;
      at_peak_.push_back({node_of(roots[i]), lifetimes[i].bytes});
    }
  }

  struct StoredType {
    Kind kind = Kind::real;
    Cast cast{};
    int64_t count = 0;
    int64_t turned_width = 0;  // as it is stored, where it is kept in both orientations
    bool operator==(const StoredType&) const = default;
  };

  static int64_t bytes_of(const StoredType& type) {
    int64_t bytes = type.count * element_bytes(type.kind, type.cast);
    return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  }

  const Graph& graph_;
  Fusion fusion_;
  const Device& device_;
  std::vector<int> first_id_, root_, first_, last_;
  std::vector<Place> places_;
  std::vector<StoredType> types_;
  std::vector<bool> views_;             // by node
  std::vector<std::vector<int>> uses_;  // by node and output
  std::vector<NodeGroup> groups_;
  std::vector<int> constant_nodes_;
  std::vector<Held> at_peak_;
  struct PartOfRow {
    int64_t bytes = 0, pitch = 0;  // where it begins, and of its rows
  };
  std::map<int, PartOfRow> parts_;  // by id
  int scale_count_ = 0;
};

}  // namespace

Placement place_values(const Graph& graph, const std::map<std::string, std::string>& stored,
                       Fusion fusion, const Device& device) {
  return Placer(graph, stored, fusion, device).run();
}

}  // namespace sigma1
