#include "sigma1/analysis/cut_edges.h"

#include <algorithm>

namespace sigma1 {
namespace {

// Neighbours of each node in both directions, packed: those of node i are at first[i]…first[i+1].
struct Adjacency {
  struct Neighbour {
    int node, edge;
  };
  std::vector<int> first;
  std::vector<Neighbour> neighbours;

  Adjacency(int nodes, const std::vector<Edge>& edges)
      : first(static_cast<size_t>(nodes) + 1), neighbours(2 * edges.size()) {
    for (const Edge& edge : edges) {
      ++first[static_cast<size_t>(edge.from) + 1];
      ++first[static_cast<size_t>(edge.to) + 1];
    }
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<int> next(first.begin(), first.end() - 1);
    for (size_t i = 0; i < edges.size(); ++i) {
      int edge = static_cast<int>(i);
      neighbours[static_cast<size_t>(next[static_cast<size_t>(edges[i].from)]++)] = {edges[i].to,
                                                                                     edge};
      neighbours[static_cast<size_t>(next[static_cast<size_t>(edges[i].to)]++)] = {edges[i].from,
                                                                                   edge};
    }
  }
};

// Depth-first search with its own stack: a model is deeper than a thread's.
class BridgeSearch {
 public:
  BridgeSearch(int nodes, const std::vector<Edge>& edges)
      : adjacency_(nodes, edges),
        order_(static_cast<size_t>(nodes), kUnseen),
        lowest_(order_),
        is_bridge_(edges.size()) {}

  std::vector<bool> run() {
    for (size_t root = 0; root < order_.size(); ++root) {
      if (order_[root] == kUnseen) explore(static_cast<int>(root));
    }
    return is_bridge_;
  }

 private:
  static constexpr int kUnseen = -1;
  struct Visit {
    int node, arrived_by, next;
  };

  void enter(int node, int arrived_by) {
    auto i = static_cast<size_t>(node);
    order_[i] = lowest_[i] = visited_++;
    stack_.push_back({node, arrived_by, adjacency_.first[i]});
  }

  void explore(int root) {
    enter(root, -1);
    while (!stack_.empty()) {
      Visit& visit = stack_.back();
      auto here = static_cast<size_t>(visit.node);
      if (visit.next < adjacency_.first[here + 1]) {
        auto [node, edge] = adjacency_.neighbours[static_cast<size_t>(visit.next++)];
        auto there = static_cast<size_t>(node);
        // Only the very edge we came by is left out: a parallel one closes a cycle.
        if (edge == visit.arrived_by) continue;
        if (order_[there] == kUnseen) {
          enter(node, edge);
        } else {
          lowest_[here] = std::min(lowest_[here], order_[there]);
        }
      } else {
        leave(visit);
      }
    }
  }

  void leave(Visit done) {
    stack_.pop_back();
    if (stack_.empty()) return;
    auto child = static_cast<size_t>(done.node), parent = static_cast<size_t>(stack_.back().node);
    lowest_[parent] = std::min(lowest_[parent], lowest_[child]);
    if (lowest_[child] > order_[parent]) is_bridge_[static_cast<size_t>(done.arrived_by)] = true;
  }

  Adjacency adjacency_;
  std::vector<int> order_, lowest_;
  std::vector<bool> is_bridge_;
  std::vector<Visit> stack_;
  int visited_ = 0;
};

}  // namespace

std::vector<bool> cut_edges(const Graph& graph, const GradientEdges& edges) {
  return BridgeSearch(graph.size(), edges.edges()).run();
}

}  // namespace sigma1
