// Where each value of a graph lies while it runs, and what runs when: the plan a program is built
// from, without any memory yet.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sigma1/analysis/memory_plan.h"
#include "sigma1/analysis/node_groups.h"
#include "sigma1/backend/node_call.h"
#include "sigma1/graph/graph.h"
#include "sigma1/runtime/program.h"

namespace sigma1 {

struct Place {
  enum class Kind {
    none,      // inside a group: never in memory
    arena,     // at `offset`, shared over time
    constant,  // at `offset`, computed once
    store,     // the store's tensor of that name
  };
  Kind kind = Kind::arena;
  int64_t offset = 0;
  std::string stored_name;
  int scale = -1;     // the slot of its run-time scale, where it has one
  int64_t pitch = 0;  // of a part of another value's rows, numbers from row to row
  // Where it is kept in both orientations: the other one's offset, which the store has for its own
  // tensors, and its width as it is stored.
  int64_t turned = -1, turned_width = 0;
};

// A value in the arena.
struct Held {
  int node = 0;
  int64_t bytes = 0;
};

struct Placement {
  std::vector<NodeGroup> groups;    // what runs, in order
  std::vector<int> constant_nodes;  // what runs once, before anything
  MemoryPlan arena, constants;
  std::vector<Held> at_peak;  // what the arena holds when it holds most
  int scale_count = 0;
  std::vector<std::vector<Place>> places;  // by node and output

  const Place& of(Value value) const {
    return places[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  }
};

// `stored`: outputs of the graph that live in the store, and their names there.
Placement place_values(const Graph& graph, const std::map<std::string, std::string>& stored,
                       Fusion fusion = Fusion::chains, const Device& device = cpu_device());

}  // namespace sigma1
