// Attention and convolution as the beginning of row chains: in which steps, and that these give the
// gradients that they give without it.
#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/grouping.cuh"
#include "sigma1/train/step_graphs.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

struct Model {
  const char *context, *precision = "fp16", *heads = "2", *name = "char_lm", *batch = "16",
                       *time = "256";
};

StepGraph step_of(const Model& model, const Device& device) {
  TrainConfig config;
  for (auto [key, value] : {std::pair{"model", model.name},
                            {"context", model.context},
                            {"depth", "2"},
                            {"width", "128"},
                            {"ffn", "512"},
                            {"heads", model.heads},
                            {"batch", model.batch},
                            {"time", model.time},
                            {"precision", model.precision}}) {
    config.set(key, value);
  }
  config.size.vocabulary = 64;
  return gradient_graph(config, {}, device);
}

// Of row chains: what reaches for other rows in them, and whether that is where they begin.
std::vector<std::string> reaching(const Graph& graph, const ProductChoices& choices) {
  std::vector<std::string> found;
  for (const NodeGroup& group : group_nodes(graph, cuda::grouping(graph, choices))) {
    if (group.kind != NodeGroup::Kind::rows) continue;
    for (int node : group.nodes) {
      std::string name(graph.node(node).op->name);
      if (name == "attention" || name.starts_with("conv1d")) found.push_back(name);
    }
    EXPECT_TRUE(group.nodes.size() > 1);
  }
  std::ranges::sort(found);
  return found;
}

// Needs no GPU.
TEST(CudaWholeLayerGroups, AreOfSmallModels) {
  auto groups = [](const Model& model, bool asked = true) {
    return reaching(*step_of(model, cpu_device()).graph, {.whole_layers = asked});
  };
  using Names = std::vector<std::string>;
  const Names none;
  EXPECT_EQ(groups({"attention"}), Names(2, "attention"));
  EXPECT_EQ(groups({"attention", "bf16"}), Names(2, "attention"));
  EXPECT_EQ(groups({"conv"}),
            (Names{"conv1d", "conv1d", "conv1d_grad_input", "conv1d_grad_input"}));
  EXPECT_EQ(groups({"attention"}, false), none) << "nobody asked for it";
  EXPECT_EQ(groups({"attention", "fp32"}), none) << "tensor cores take 16 bits";
  EXPECT_EQ(groups({"attention", "fp16", "4"}), none) << "a block has one head";
  EXPECT_EQ(groups({"attention", "fp16", "2", "gpt"}), Names(2, "attention"));
  EXPECT_EQ(groups({"attention", "fp16", "2", "gpt", "26", "160"}), none)
      << "its kernels read parts of rows";
}

TEST(CudaWholeLayerPrograms, GiveTheGradientsOfKernelsApart) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const Device &apart = cuda_device(0, {.whole_layers = false}), &together = cuda_device();
  for (const char* context : {"attention", "conv"}) {
    SCOPED_TRACE(context);
    StepGraph step = step_of({context}, apart);
    Bindings bindings = training_bindings(*step.graph);
    ProgramRun want(step.graph, bindings, step.stored, apart);
    ProgramRun got(step.graph, bindings, step.stored, together);
    want.program.run(0);
    got.program.run(0);
    EXPECT_LE(relative_error(tensor_of(got.program.output("loss")),
                             tensor_of(want.program.output("loss"))),
              1e-3);
    for (const auto& [output, name] : step.stored) {
      double error = relative_error(tensor_of(got.store.at(name)), tensor_of(want.store.at(name)));
      EXPECT_LE(error, 2e-2) << name;
    }
  }
}

}  // namespace
}  // namespace sigma1
