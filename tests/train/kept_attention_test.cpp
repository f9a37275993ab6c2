// What a step gives whether or not attention keeps for backward what that would compute again.
#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/ops/attention.h"
#include "sigma1/train/step_graphs.h"
#include "tests/backend/cpu_like.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

TrainConfig config_of(const char* model, const char* precision, const char* keep_attention) {
  TrainConfig config;
  config.set("model", std::string_view(model).substr(0, std::string_view(model).find(' ')));
  for (auto [key, value] : {std::pair{"depth", "2"},
                            {"width", "48"},
                            {"ffn", "64"},
                            {"heads", "4"},
                            {"time", "70"},
                            {"batch", "3"},
                            {"precision", precision},
                            {"keep-attention", keep_attention}}) {
    config.set(key, value);
  }
  if (std::string_view(model) == "gpt llama") config.set("block", "llama");
  config.size.vocabulary = 64;
  return config;
}

int64_t count(const Graph& graph, const OpDef& op) {
  return std::ranges::count(graph.nodes(), &op, &Node::op);
}

// Loss and gradients; of bert some keys are padding.
std::map<std::string, Tensor> step_of(const TrainConfig& config) {
  StepGraph step = gradient_graph(config, {}, cpu_device());
  EXPECT_EQ(count(*step.graph, attention_kept_grad_op), config.keep_attention == "true" ? 2 : 0);
  ProgramRun run(step.graph, training_bindings(*step.graph), step.stored);
  run.program.run(0);
  std::map<std::string, Tensor> results{{"loss", tensor_of(run.program.output("loss"))}};
  for (const auto& [output, name] : step.stored) results[name] = tensor_of(run.store.at(name));
  return results;
}

// But for roundings: of fp32, and of the result where that is stored in fp16. What is stored in 8
// bits is not the result.
TEST(KeptAttention, GivesTheSameGradients) {
  for (const char* model : {"gpt", "gpt llama", "bert"}) {
    for (auto [precision, bound] : {std::pair{"fp32", 2e-6}, {"fp16", 2e-3}, {"fp8", 2e-4}}) {
      SCOPED_TRACE(fmt::format("{} {}", model, precision));
      auto again = step_of(config_of(model, precision, "false"));
      auto kept = step_of(config_of(model, precision, "true"));
      ASSERT_EQ(kept.size(), again.size());
      EXPECT_EQ(kept.at("loss").data, again.at("loss").data);
      for (const auto& [name, tensor] : again) {
        EXPECT_LE(relative_error(kept.at(name), tensor), bound) << name;
      }
    }
  }
}

class AskingDevice : public CpuLike {
 public:
  bool keeps_attention(const Graph& graph, int node) const override {
    return graph.node(node).name.starts_with("grad/layer1/");
  }
};

TEST(KeptAttention, IsTheDevicesChoiceUnlessTold) {
  auto kept = [](const char* setting, const Device& device) {
    return count(*gradient_graph(config_of("gpt", "fp16", setting), {}, device).graph,
                 attention_kept_op);
  };
  EXPECT_EQ(kept("auto", cpu_device()), 0);
  EXPECT_EQ(kept("auto", AskingDevice()), 1);
  EXPECT_EQ(kept("true", cpu_device()), 2);
  EXPECT_EQ(kept("false", AskingDevice()), 0);
}

}  // namespace
}  // namespace sigma1
