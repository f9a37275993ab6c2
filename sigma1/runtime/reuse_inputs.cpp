#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/runtime/placed_values.h"

namespace sigma1 {
namespace {

class InputReuse {
 public:
  explicit InputReuse(PlacedValues& values) : values_(values), graph_(values.graph) {}

  void run() {
    find_lifetimes();
    overwrite_inputs();
    check_stored();
  }

 private:
  int root(Value value) const { return values_.roots.root_of(value); }
  Value value(int node, size_t output) const { return values_.roots.value(node, output); }
  int& first(int root) { return values_.first[static_cast<size_t>(root)]; }
  int& last(int root) { return values_.last[static_cast<size_t>(root)]; }
  const NodeGroup& group_at(int t) const { return values_.groups[static_cast<size_t>(t)]; }
  int group_count() const { return static_cast<int>(values_.groups.size()); }

  void find_lifetimes() {
    values_.first.assign(values_.roots.size(), -1);
    values_.last.assign(values_.roots.size(), -1);
    for (int t = 0; t < group_count(); ++t) {
      for (int i : group_at(t).nodes) {
        for (Value input : graph_.node(i).inputs) last(root(input)) = t;
        for (size_t o = 0; o < graph_.node(i).outputs.size(); ++o) {
          int each = root(value(i, o));
          if (first(each) < 0) first(each) = t;
          last(each) = std::max(last(each), t);
        }
      }
    }
    for (const auto& [name, value] : graph_.outputs()) last(root(value)) = group_count();
  }

  void overwrite_inputs() {
    for (int t = 0; t < group_count(); ++t) {
      const NodeGroup& group = group_at(t);
      bool may = group.kind == NodeGroup::Kind::single || group.kind == NodeGroup::Kind::pointwise;
      for (int i : group.nodes) {
        for (size_t o = 0; may && o < graph_.node(i).outputs.size(); ++o) {
          int output = values_.roots.id(value(i, o));
          if (values_.roots.is_root(output) && is_in_arena(output))
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
        if (!allowed || !is_in_arena(input) || reads(group, input) != 1) continue;
        bool is_alike = values_.type(input) == values_.type(output);
        if (last(input) != t || first(input) == t || !is_alike) continue;
        values_.roots.join(output, input);
        last(input) = last(output);
        return;
      }
    }
  }

  bool is_in_arena(int id) const { return values_.place(id).kind == Place::Kind::arena; }

  bool may_overwrite(const Node& node, size_t input, size_t output) const {
    const Kernel& kernel = values_.device.find_kernel(*node.op);
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
      const Node& node = graph_.node(i);
      if (node.op == &input_op || node.op == &parameter_op) sources[node.name] = i;
    }
    for (int t = 0; t < group_count(); ++t) {
      for (int writer : group_at(t).nodes) check_writer(t, writer, sources);
    }
  }

  void check_writer(int t, int writer, const std::map<std::string, int>& sources) {
    const NodeGroup& group = group_at(t);
    const Node& node = graph_.node(writer);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Place& written = values_.place(root(value(writer, o)));
      if (written.kind != Place::Kind::store) continue;
      auto source = sources.find(written.stored_name);
      if (source == sources.end()) continue;
      int old_value = root(value(source->second, 0));
      bool in_place = group.kind == NodeGroup::Kind::pointwise;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        in_place = in_place || (root(node.inputs[k]) == old_value && may_overwrite(node, k, o) &&
                                reads(group.nodes, old_value) == 1);
      }
      if (last(old_value) > t || (last(old_value) == t && !in_place)) {
        throw Bug("{} overwrites {}, which is still read", node.name, written.stored_name);
      }
    }
  }

  PlacedValues& values_;
  const Graph& graph_;
};

}  // namespace

void reuse_inputs(PlacedValues& values) { InputReuse(values).run(); }

}  // namespace sigma1
