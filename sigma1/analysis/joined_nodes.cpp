#include "sigma1/analysis/joined_nodes.h"

#include <map>
#include <optional>
#include <set>

#include "sigma1/analysis/node_groups.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph) {
    const std::vector<bool> views = find_views(graph);
    for (int i = 0; i < graph.size(); ++i) {
      if (views[static_cast<size_t>(i)]) continue;
      for (Value input : graph.node(i).inputs) {
        Value behind = behind_views(graph, views, input);
        readers_[{behind.node, behind.output}].push_back(i);
      }
    }
    for (const auto& [name, value] : graph.outputs()) marked_.insert({value.node, value.output});
  }

  std::vector<JoinedNodes> run() {
    std::vector<JoinedNodes> found;
    for (int i = 0; i < graph_.size(); ++i) {
      if (graph_.node(i).op != &concat_op || !is_of_one_node(i)) continue;
      if (std::optional<JoinedNodes> joined = joined_by(i)) found.push_back(std::move(*joined));
    }
    return found;
  }

 private:
  using Source = std::pair<int, int>;  // a node and which of its outputs

  bool is_of_one_node(int concat) {
    const std::vector<Value>& parts = graph_.node(concat).inputs;
    int from = parts.front().node;
    bool all = graph_.node(from).outputs.size() == parts.size();
    for (int o = 0; all && o < static_cast<int>(parts.size()); ++o) {
      const Value part = parts[static_cast<size_t>(o)];
      const Source source{part.node, part.output};
      all = source == Source{from, o} && readers_[source].size() == 1 && !marked_.contains(source);
    }
    return all;
  }

  bool is_read(int node) {
    bool read = false;
    for (size_t o = 0; o < graph_.node(node).outputs.size(); ++o) {
      read |= !readers_[{node, static_cast<int>(o)}].empty();
    }
    return read;
  }

  std::optional<JoinedNodes> joined_by(int concat) {
    JoinedNodes result{{graph_.node(concat).inputs.front().node, concat}, {}};
    if (marked_.contains({concat, 0})) return std::nullopt;
    for (int reader : readers_[{concat, 0}]) {
      (is_read(reader) ? result.nodes : result.beside).push_back(reader);
    }
    if (result.nodes.size() != 3) return std::nullopt;
    return result;
  }

  const Graph& graph_;
  std::map<Source, std::vector<int>> readers_;  // behind views
  std::set<Source> marked_;                     // outputs of the graph
};

}  // namespace

std::vector<JoinedNodes> find_joined_nodes(const Graph& graph) { return Finder(graph).run(); }

}  // namespace sigma1
