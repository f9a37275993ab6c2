#include "tests/gpu/model_chain.h"

#include "sigma1/analysis/node_groups.h"
#include "sigma1/backend/cuda/row_local.cuh"
#include "sigma1/backend/node_call.h"

namespace sigma1 {

RowChainCase chain_of(const Device& device, const Graph& graph, std::span<const int> nodes) {
  const int64_t rows = graph.node(nodes.front()).outputs.front().rows();
  const std::vector<bool> views = find_views(graph);
  RowChainCase chain(device, rows, "fp16");
  std::map<std::pair<int, int>, RowChainCase::Id> known;  // by node and output
  for (int node : nodes) {
    NodeCall call(graph, node);
    std::vector<RowChainCase::Id> inputs;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      Value from = behind_views(graph, views, call.node->inputs[i]);
      auto [found, is_new] = known.try_emplace({from.node, from.output});
      if (is_new) {
        Buffer input = call.inputs[i];
        if (cuda::is_row_input(*call.node->op, i, call.inputs.size()))
          input.shape = {rows, cuda::width_of(input)};
        found->second = chain.random_like(input);
      }
      inputs.push_back(found->second);
    }
    known[{node, 0}] = chain.apply_as(call.outputs.front().codec, *call.node->op, inputs,
                                      call.factors.front(), call.node->attributes);
  }
  return chain;
}

}  // namespace sigma1
