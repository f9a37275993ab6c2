#include "sigma1/analysis/bundle_groups.h"

#include <algorithm>
#include <map>
#include <set>

namespace sigma1 {
namespace {

class Bundler {
 public:
  Bundler(const Graph& graph, const Grouping& grouping,
          const std::function<bool(int node)>& is_free)
      : graph_(graph),
        grouping_(grouping),
        is_free_(is_free),
        readers_(static_cast<size_t>(graph.size())) {
    for (int i = 0; i < graph.size(); ++i) {
      for (Value input : graph.node(i).inputs) {
        readers_[static_cast<size_t>(input.node)].push_back(i);
      }
    }
    for (const auto& [name, value] : graph.outputs()) {
      if (value.output == 0) outputs_.insert(value.node);
    }
  }

  std::vector<std::vector<int>> run() const {
    struct Found {
      std::vector<int> nodes, casts;
    };
    std::map<int, Found> found;  // by kind
    for (int i = 0; i < graph_.size(); ++i) {
      if (!is_free_(i) || !is_read_for_outputs(i)) continue;
      int kind = grouping_.bundle_kind(graph_.node(i));
      std::vector<int> casts;
      if (kind == 0 || !takes_casts_of(kind, i, casts)) continue;
      found[kind].nodes.push_back(i);
      found[kind].casts.insert(found[kind].casts.end(), casts.begin(), casts.end());
    }
    std::vector<std::vector<int>> groups;
    for (auto& [kind, group] : found) {
      std::ranges::sort(group.casts);
      group.nodes.insert(group.nodes.end(), group.casts.begin(), group.casts.end());
      groups.push_back(std::move(group.nodes));
    }
    return groups;
  }

 private:
  // Asked before its kind is, which takes longer to tell.
  bool is_read_for_outputs(int node) const {
    return std::ranges::all_of(readers_[static_cast<size_t>(node)], [&](int reader) {
      return is_free_(reader) && outputs_.contains(reader);
    });
  }

  // Whether all that read a node are casts that its bundle takes, and casts of these; adds them.
  bool takes_casts_of(int kind, int node, std::vector<int>& casts) const {
    return std::ranges::all_of(readers_[static_cast<size_t>(node)], [&](int reader) {
      const Node& cast = graph_.node(reader);
      bool taken = grouping_.bundle_takes && is_free_(reader) && outputs_.contains(reader) &&
                   outputs_.contains(node) && cast.inputs.front().output == 0 &&
                   grouping_.bundle_takes(kind, cast);
      if (!taken) return false;
      casts.push_back(reader);
      return takes_casts_of(kind, reader, casts);
    });
  }

  const Graph& graph_;
  const Grouping& grouping_;
  const std::function<bool(int node)>& is_free_;
  std::vector<std::vector<int>> readers_;  // by node
  std::set<int> outputs_;                  // nodes whose first output the graph gives
};

}  // namespace

std::vector<std::vector<int>> bundle_groups(const Graph& graph, const Grouping& grouping,
                                            const std::function<bool(int node)>& is_free) {
  return Bundler(graph, grouping, is_free).run();
}

}  // namespace sigma1
