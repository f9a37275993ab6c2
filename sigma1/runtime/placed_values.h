// What is known of a graph's values while their places are found: shared by the steps of
// place_values(), and nobody else's business.
#pragma once

#include <algorithm>

#include "sigma1/runtime/placement.h"

namespace sigma1 {

// Values by number, and which of them are the same bytes.
class ValueRoots {
 public:
  explicit ValueRoots(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes()) {
      first_.push_back(static_cast<int>(root_.size()));
      for (size_t o = 0; o < node.outputs.size(); ++o)
        root_.push_back(static_cast<int>(root_.size()));
    }
  }

  size_t size() const { return root_.size(); }
  int id(Value value) const { return first_[static_cast<size_t>(value.node)] + value.output; }
  Value value(int node, size_t output) const {
    return {const_cast<Graph*>(&graph_), node, static_cast<int>(output)};
  }
  // What computes the value with this id.
  int node_of(int id) const {
    return static_cast<int>(std::ranges::upper_bound(first_, id) - first_.begin() - 1);
  }
  // Of that value, as the node has it.
  int64_t width_of(int id) const {
    int node = node_of(id), output = id - first_[static_cast<size_t>(node)];
    return value(node, static_cast<size_t>(output)).shape().back();
  }

  int root_of(int id) const {
    while (root_[static_cast<size_t>(id)] != id) id = root_[static_cast<size_t>(id)];
    return id;
  }
  int root_of(Value value) const { return root_of(id(value)); }
  bool is_root(int id) const { return root_[static_cast<size_t>(id)] == id; }
  void join(int id, int root) { root_[static_cast<size_t>(id)] = root; }

 private:
  const Graph& graph_;
  std::vector<int> first_, root_;
};

struct StoredType {
  Kind kind = Kind::real;
  Cast cast{};
  int64_t count = 0;
  int64_t turned_width = 0;  // as it is stored, where it is kept in both orientations
  bool operator==(const StoredType&) const = default;

  int64_t bytes() const {
    int64_t bytes = count * element_bytes(kind, cast);
    return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  }
};

struct PlacedValues {
  const Graph& graph;
  const Device& device;
  ValueRoots roots{graph};
  std::vector<Place> places{roots.size()};
  std::vector<StoredType> types{roots.size()};
  std::vector<NodeGroup> groups{};   // what runs, in order
  std::vector<int> first{}, last{};  // by root: the groups from which to which it is needed
  struct PartOfRow {
    int64_t bytes = 0, pitch = 0;  // where it begins, and of its rows
  };
  std::map<int, PartOfRow> parts{};  // by id

  Place& place(int id) { return places[static_cast<size_t>(id)]; }
  StoredType& type(int id) { return types[static_cast<size_t>(id)]; }
};

// Fills first and last, and lets outputs take their inputs' bytes where the kernel allows it and
// nobody needs the input later. Throws Bug where the store would be overwritten too early.
void reuse_inputs(PlacedValues& values);

// Gives places their offsets, and the plan all but the groups.
void plan_places(PlacedValues& values, Placement& plan);

}  // namespace sigma1
