// Where the gradient of kept attention writes codes of 8 bits itself: in which models, and that
// steps give the gradients they give without it.
#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/grouping.cuh"
#include "sigma1/train/step_graphs.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

StepGraph step_of(const char* model, const char* precision, const char* time, const char* depth,
                  const Device& device) {
  TrainConfig config;
  config.set("model", std::string_view(model).substr(0, std::string_view(model).find(' ')));
  for (auto [key, value] : {std::pair{"depth", depth},
                            {"width", "256"},
                            {"ffn", "256"},
                            {"heads", "4"},
                            {"batch", "32"},
                            {"time", time},
                            {"precision", precision},
                            {"keep-attention", "true"}}) {
    config.set(key, value);
  }
  if (std::string_view(model) == "gpt llama") config.set("block", "llama");
  config.size.vocabulary = 64;
  return gradient_graph(config, {}, device);
}

using Groups = std::vector<std::vector<std::string>>;

Groups joined_groups(const Graph& graph, const Grouping& grouping) {
  Groups found;
  for (const NodeGroup& group : group_nodes(graph, grouping)) {
    if (group.kind != NodeGroup::Kind::joined) continue;
    auto& names = found.emplace_back();
    for (int node : group.nodes) names.emplace_back(graph.node(node).op->name);
  }
  return found;
}

// Needs no GPU.
TEST(CudaAttentionCodeGroups, AreOfModelsWithFactorsOf8Bits) {
  auto groups = [](const char* model, const char* precision, const char* time, bool asked = true) {
    StepGraph step = step_of(model, precision, time, "2", cpu_device());
    return joined_groups(*step.graph, cuda::grouping(*step.graph, {.casts_in_attention = asked}));
  };
  const Groups two(2, {"attention_kept_grad", "concat", "identity", "sum"}), none;
  for (const char* model : {"gpt", "bert"}) {
    SCOPED_TRACE(model);
    EXPECT_EQ(groups(model, "fp8", "144"), two);
    EXPECT_EQ(groups(model, "fp8", "144", false), none) << "nobody asked for it";
    EXPECT_EQ(groups(model, "fp16", "144"), none) << "nothing is cast";
    EXPECT_EQ(groups(model, "fp8", "200"), none) << "columns of samples do not begin on 16 bytes";
    EXPECT_EQ(groups(model, "fp8", "112"), none) << "too short for these kernels";
  }
  EXPECT_EQ(groups("gpt llama", "fp8", "144"), none) << "gradients are rotated first";
}

// One rounding less: one code of some hundred is its neighbour. Of one layer, as further casts
// would make more of such differences.
TEST(CudaAttentionCodePrograms, GiveTheGradientsOfKernelsApart) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const Device &plain = cuda_device(0, {.casts_in_attention = false}), &joining = cuda_device();
  for (const char* model : {"gpt", "bert"}) {
    SCOPED_TRACE(model);
    StepGraph step = step_of(model, "fp8", "144", "1", plain);
    ASSERT_EQ(joined_groups(*step.graph, joining.grouping(*step.graph)).size(), 1u);
    Bindings bindings = training_bindings(*step.graph);
    ProgramRun apart(step.graph, bindings, step.stored, plain);
    ProgramRun together(step.graph, bindings, step.stored, joining);
    EXPECT_LE(together.program.memory().arena, apart.program.memory().arena);
    apart.program.run(0);
    together.program.run(0);
    EXPECT_EQ(read_floats(together.program.output("loss")),
              read_floats(apart.program.output("loss")));
    for (const auto& [output, name] : step.stored) {
      double error =
          relative_error(tensor_of(together.store.at(name)), tensor_of(apart.store.at(name)));
      EXPECT_LE(error, 2e-2) << name;
    }
  }
}

}  // namespace
}  // namespace sigma1
