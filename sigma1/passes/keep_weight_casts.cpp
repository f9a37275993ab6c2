#include <algorithm>
#include <map>
#include <optional>

#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/sources.h"
#include "sigma1/graph/storage.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/passes/lowering.h"

namespace sigma1 {
namespace {

// What a node is a copy of, where it does nothing but round a parameter to fewer bits, always to
// the same.
std::optional<WeightCopy> copy_at(const Graph& graph, const Node& node) {
  if (node.op != &identity_op || node.factor(0) != 1) return std::nullopt;
  const Node& parameter = graph.node(node.inputs.front().node);
  if (parameter.op != &parameter_op) return std::nullopt;
  Cast cast = storage(node, 0);
  bool narrows = cast.format.bits() < storage(parameter, 0).format.bits();
  if (!narrows || cast.rounding == Rounding::stochastic) return std::nullopt;
  return WeightCopy{parameter.name, parameter.name + "/as_" + format_name(cast.format),
                    node.outputs.front().shape, cast};
}

}  // namespace

std::vector<WeightCopy> keep_weight_casts(Graph& graph) {
  std::vector<WeightCopy> copies;
  std::map<std::string, Value> inputs;  // by name
  rewrite(graph, [&](Rewriter& rewriter, int i) -> std::vector<Value> {
    const Node& node = rewriter.old().node(i);
    std::optional<WeightCopy> copy = copy_at(rewriter.old(), node);
    if (!copy) return rewriter.copy(i);
    auto [entry, is_new] = inputs.try_emplace(copy->name);
    if (is_new) {
      Graph& fresh = rewriter.fresh();
      entry->second = fresh.input(copy->name, node.outputs.front(), false);
      fresh.node(entry->second.node).storage = {copy->cast};
      copies.push_back(*std::move(copy));
    }
    return {entry->second};
  });
  return copies;
}

std::set<std::string> parameters_read(const Graph& graph) {
  std::set<std::string> names;
  auto add = [&](Value value) {
    const Node& node = graph.node(value.node);
    if (node.op == &parameter_op) names.insert(node.name);
  };
  for (const Node& node : graph.nodes()) std::ranges::for_each(node.inputs, add);
  for (const auto& [name, value] : graph.outputs()) add(value);
  return names;
}

}  // namespace sigma1
