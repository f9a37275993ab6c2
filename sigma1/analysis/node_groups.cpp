#include "sigma1/analysis/node_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "sigma1/analysis/bundle_groups.h"
#include "sigma1/analysis/joined_nodes.h"
#include "sigma1/analysis/pointwise_groups.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

class Grouper {
 public:
  Grouper(const Graph& graph, const Grouping& grouping)
      : graph_(graph), grouping_(grouping), views_(find_views(graph)) {
    group_of_.assign(static_cast<size_t>(graph.size()), -1);
  }

  std::vector<NodeGroup> run() {
    if (grouping_.runs_joined) group_joined();
    if (grouping_.local_rows) group_rows();
    if (grouping_.takes_sum) add_sums_to_rows();
    if (grouping_.bundle_kind) group_bundles();
    group_chains(grouping_.takes_sum ? free_unread() : std::set<int>());
    return in_order();
  }

 private:
  bool is_view(int node) const { return views_[static_cast<size_t>(node)]; }
  bool is_free(int node) const {
    return group_of_[static_cast<size_t>(node)] < 0 && !is_view(node);
  }
  int producer(Value value) const { return behind_views(graph_, views_, value).node; }

  void add(NodeGroup::Kind kind, std::vector<int> nodes) {
    if (nodes.size() == 1) kind = NodeGroup::Kind::single;
    for (int node : nodes) {
      group_of_[static_cast<size_t>(node)] = static_cast<int>(groups_.size());
    }
    groups_.push_back({kind, std::move(nodes)});
  }

  // Before all else: chains would take what is made of the whole, and bundles its sum.
  void group_joined() {
    for (JoinedNodes& each : find_joined_nodes(graph_)) {
      NodeGroup group{NodeGroup::Kind::joined, std::move(each.nodes)};
      bool runs = std::ranges::all_of(group.nodes, [&](int node) { return is_free(node); }) &&
                  grouping_.runs_joined(group.nodes);
      for (int sum : each.beside) {
        runs = runs && grouping_.takes_sum && grouping_.takes_sum(group, sum);
        group.nodes.push_back(sum);
      }
      if (runs) add(group.kind, std::move(group.nodes));
    }
  }

  // A node's level rises wherever a way to it enters or leaves rows, or reaches for others. Of two
  // nodes of a level neither is reached from the other but through rows of that level, so that a
  // level's nodes can run together.
  void group_rows() {
    std::vector<int64_t> rows, levels;
    std::map<std::pair<int64_t, int64_t>, std::vector<int>> found;  // by level and rows
    for (int i = 0; i < graph_.size(); ++i) {
      // With its inputs' rows, what is computed again would be computed too early.
      bool apart = !is_free(i) || graph_.node(i).again;
      rows.push_back(apart ? 0 : grouping_.local_rows(graph_.node(i)));
      bool reaches =
          rows.back() > 0 && grouping_.reaches_rows && grouping_.reaches_rows(graph_.node(i));
      int64_t level = 0;
      for (Value input : graph_.node(i).inputs) {
        auto from = static_cast<size_t>(producer(input));
        bool stays = rows[from] == rows.back() && !reaches;
        level = std::max(level, levels[from] + (stays ? 0 : 1));
      }
      levels.push_back(level);
      if (rows.back() > 0) found[{level, rows.back()}].push_back(i);
    }
    for (const auto& [key, nodes] : found) add_rows(nodes);
  }

  void add_rows(const std::vector<int>& nodes) {
    std::vector<int> group;
    auto finish = [&] {
      bool only_pointwise = std::ranges::all_of(
          group, [&](int node) { return grouping_.is_pointwise(graph_.node(node)); });
      if (group.size() > 1 && !only_pointwise) add(NodeGroup::Kind::rows, group);
      if (group.size() == 1 && !only_pointwise)
        lone_rows_.push_back({NodeGroup::Kind::rows, group});
      group.clear();
    };
    for (int node : nodes) {
      group.push_back(node);
      if (grouping_.rows_fit(group)) continue;
      group.pop_back();
      finish();
      group.push_back(node);
    }
    finish();
  }

  // Before bundles are made: sums that a chain takes along need not read its rows again. With one,
  // a single node is a group too.
  void add_sums_to_rows() {
    std::vector<int> left = join_sums(groups_, free_unread());
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (int node : groups_[g].nodes) group_of_[static_cast<size_t>(node)] = static_cast<int>(g);
    }
    join_sums(lone_rows_, {left.begin(), left.end()});
    for (NodeGroup& each : lone_rows_) {
      if (each.nodes.size() > 1) add(each.kind, std::move(each.nodes));
    }
  }

  // Those that nobody in the graph reads can run at any time after what they read.
  std::set<int> free_unread() const {
    std::set<int> read, found;
    for (const Node& node : graph_.nodes()) {
      for (Value input : node.inputs) read.insert(input.node);
    }
    for (int i = 0; i < graph_.size(); ++i) {
      if (is_free(i) && !read.contains(i)) found.insert(i);
    }
    return found;
  }

  void group_bundles() {
    auto is_free_node = [&](int node) { return is_free(node); };
    for (std::vector<int>& nodes : bundle_groups(graph_, grouping_, is_free_node)) {
      add(NodeGroup::Kind::bundle, std::move(nodes));
    }
  }

  // A node and which of its outputs, behind views.
  using Source = std::pair<int, int>;
  Source source(Value value) const {
    Value behind = behind_views(graph_, views_, value);
    return {behind.node, behind.output};
  }

  // By value: the groups that compute it, and then those that read it.
  std::map<Source, std::vector<size_t>> groups_around(const std::vector<NodeGroup>& groups) const {
    std::map<Source, std::vector<size_t>> around;
    for (size_t g = 0; g < groups.size(); ++g) {
      for (int node : groups[g].nodes) {
        int outputs = static_cast<int>(graph_.node(node).outputs.size());
        for (int o = 0; o < outputs; ++o) around[{node, o}].push_back(g);
      }
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      for (int node : groups[g].nodes) {
        for (Value input : graph_.node(node).inputs) around[source(input)].push_back(g);
      }
    }
    return around;
  }

  // Adds each of these nodes, which nobody reads, to a group that takes it, best the one that
  // computes what it reads; gives those that none takes.
  std::vector<int> join_sums(std::vector<NodeGroup>& groups, const std::set<int>& sums) const {
    std::map<Source, std::vector<size_t>> around = groups_around(groups);
    std::vector<int> refused;
    for (int sum : sums) {
      const std::vector<Value>& inputs = graph_.node(sum).inputs;
      auto takes = [&](size_t g) {
        auto is_near = [&](Value input) {
          const std::vector<size_t>& near = around[source(input)];
          return std::ranges::find(near, g) != near.end();
        };
        return std::ranges::all_of(inputs, is_near) && grouping_.takes_sum(groups[g], sum);
      };
      std::vector<size_t> candidates;
      if (!inputs.empty()) candidates = around[source(inputs.front())];
      auto found = std::ranges::find_if(candidates, takes);
      if (found == candidates.end()) {
        refused.push_back(sum);
      } else {
        groups[*found].nodes.push_back(sum);
      }
    }
    return refused;
  }

  // Sums over the rows of a chain do not count as readers of what they sum up, if it takes them.
  void group_chains(std::set<int> sums) {
    auto joins = [&](const Node& node) {
      auto index = static_cast<int>(&node - graph_.nodes().data());
      return is_free(index) && grouping_.is_pointwise(node);
    };
    std::erase_if(sums, [&](int node) { return joins(graph_.node(node)); });
    for (;;) {
      std::vector<NodeGroup> chains;
      for (std::vector<int>& nodes : pointwise_groups(graph_, joins, sums)) {
        if (!is_free(nodes.back()) || sums.contains(nodes.back())) continue;
        chains.push_back({NodeGroup::Kind::pointwise, std::move(nodes)});
      }
      std::vector<int> refused = join_sums(chains, sums);
      for (int each : refused) sums.erase(each);
      if (!refused.empty()) continue;
      for (NodeGroup& chain : chains) add(chain.kind, std::move(chain.nodes));
      return;
    }
  }

  // As late as its last node stands in the graph, or right before the first that needs it.
  std::vector<NodeGroup> in_order() {
    std::vector<std::set<int>> readers(groups_.size());
    std::vector<int> missing(groups_.size(), 0);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (int node : groups_[g].nodes) {
        for (Value input : graph_.node(node).inputs) {
          auto from = static_cast<size_t>(group_of_[static_cast<size_t>(producer(input))]);
          if (from != g && readers[from].insert(static_cast<int>(g)).second) ++missing[g];
        }
      }
    }
    std::set<std::pair<int, int>> ready;  // by last node
    auto add_ready = [&](size_t g) {
      ready.insert({groups_[g].nodes.back(), static_cast<int>(g)});
    };
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (missing[g] == 0) add_ready(g);
    }
    std::vector<NodeGroup> ordered;
    while (!ready.empty()) {
      auto next = static_cast<size_t>(ready.begin()->second);
      ready.erase(ready.begin());
      for (int reader : readers[next]) {
        if (--missing[static_cast<size_t>(reader)] == 0) add_ready(static_cast<size_t>(reader));
      }
      ordered.push_back(std::move(groups_[next]));
    }
    if (ordered.size() != groups_.size()) throw Bug("groups of nodes wait for each other");
    return ordered;
  }

  const Graph& graph_;
  const Grouping& grouping_;
  std::vector<bool> views_;
  std::vector<NodeGroup> groups_;
  std::vector<NodeGroup> lone_rows_;  // groups of one node, which are none unless they get a sum
  std::vector<int> group_of_;         // by node
};

bool keeps_storage(const Graph& graph, const Node& node) {
  const Value& from = node.inputs.front();
  const Node& before = graph.node(from.node);
  if (node.storage.empty() || before.storage.empty()) {
    return node.storage.empty() && before.storage.empty();
  }
  return node.storage.front() == before.storage[static_cast<size_t>(from.output)];
}

}  // namespace

std::vector<bool> find_views(const Graph& graph) {
  std::vector<bool> views;
  for (const Node& node : graph.nodes()) {
    views.push_back(node.op == &reshape_op && node.factor(0) == 1 && keeps_storage(graph, node));
  }
  for (const auto& [name, value] : graph.outputs()) views[static_cast<size_t>(value.node)] = false;
  return views;
}

Value behind_views(const Graph& graph, const std::vector<bool>& views, Value value) {
  while (views[static_cast<size_t>(value.node)]) value = graph.node(value.node).inputs.front();
  return value;
}

std::vector<int> producers_among(const Graph& graph, const std::vector<bool>& views,
                                 const std::vector<int>& nodes, const Node& node) {
  std::vector<int> producers;
  for (Value input : node.inputs) {
    auto found = std::ranges::find(nodes, behind_views(graph, views, input).node);
    producers.push_back(found == nodes.end() ? -1 : static_cast<int>(found - nodes.begin()));
  }
  return producers;
}

std::vector<NodeGroup> group_nodes(const Graph& graph, const Grouping& grouping) {
  return Grouper(graph, grouping).run();
}

}  // namespace sigma1
