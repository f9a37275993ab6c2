// Row chains of models' training steps as clusters compute them, on the CPU: against the CPU's
// kernels of their steps. Whatever a model is made of, its chains compile for a GPU.
#include <gtest/gtest.h>

#include <set>

#include "sigma1/analysis/node_groups.h"
#include "sigma1/backend/cuda/compile.cuh"
#include "sigma1/backend/cuda/grouping.cuh"
#include "sigma1/train/step_graphs.h"
#include "tests/gpu/model_chain.h"
#include "tests/gpu/on_host/host_chain.h"

namespace sigma1 {
namespace {

using cuda::ClusterShape;

struct Model {
  const char *name, *model;
  std::vector<std::pair<const char*, const char*>> settings;
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

const Model kModels[] = {
    {"post_norm", "char_lm", {{"norm", "post"}}},
    {"no_norm", "char_lm", {{"norm", "none"}, {"width", "80"}}},
    {"running_mean", "char_lm", {{"residual", "running-mean"}, {"ffn", "112"}}},
    {"convolution", "char_lm", {{"context", "conv"}, {"precision", "bf16"}}},
    {"loss_scaled", "char_lm", {{"method", "loss-scale=2048"}}},
    {"gpt", "gpt", {{"recompute", "norms"}}},
    {"llama", "gpt", {{"block", "llama"}, {"heads", "4"}, {"kv-heads", "2"}}},
    {"u_mup", "gpt", {{"parametrization", "u-mup"}, {"precision", "bf16"}}},
    {"bert", "bert", {{"predictions", "4"}, {"precision", "bf16"}}},
    {"mlp", "mlp", {}},
};

// Of two layers, so that one is followed by another; of few rows, which fill no cluster.
std::shared_ptr<Graph> step_of(const Model& model) {
  std::vector<std::pair<std::string, std::string>> settings{
      {"model", model.model}, {"depth", "2"}, {"width", "64"}, {"ffn", "160"},
      {"heads", "2"},         {"batch", "5"}, {"time", "8"},   {"precision", "fp16"}};
  settings.insert(settings.end(), model.settings.begin(), model.settings.end());
  TrainConfig config;
  config.set_all(settings);
  config.size.vocabulary = 48;
  return gradient_graph(config, {}, cpu_device()).graph;
}

std::vector<std::vector<int>> row_chains(const Graph& graph) {
  std::vector<std::vector<int>> chains;
  for (NodeGroup& group : group_nodes(graph, cuda::grouping(graph, {}))) {
    if (group.kind == NodeGroup::Kind::rows) chains.push_back(std::move(group.nodes));
  }
  return chains;
}

class ModelChainsOnHost : public testing::TestWithParam<Model> {};

TEST_P(ModelChainsOnHost, GoAsTheirSteps) {
  std::shared_ptr<Graph> graph = step_of(GetParam());
  std::set<std::string> seen;
  for (const std::vector<int>& nodes : row_chains(*graph)) {
    SCOPED_TRACE(fmt::format("{} steps from {}", nodes.size(), graph->node(nodes.front()).name));
    RowChainCase chain = chain_of(cpu_device(), *graph, nodes);
    auto prepared = chain.prepare(std::vector<bool>(chain.step_count(), true));
    const ClusterShape shape = seen.size() % 2 == 0 ? ClusterShape{32, 2} : ClusterShape{16, 4};
    auto source = cuda::cluster_source(prepared->steps, shape);
    ASSERT_TRUE(source);
    if (!seen.insert(source->text).second) continue;
    EXPECT_FALSE(cuda::machine_code(source->text).empty());
    expect_each_step(chain, [=](const std::vector<ChainStep>& steps) {
      return std::make_unique<HostChain>(steps, shape);
    });
  }
  EXPECT_FALSE(seen.empty());
}

INSTANTIATE_TEST_SUITE_P(All, ModelChainsOnHost, testing::ValuesIn(kModels),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace sigma1
