// Whole training steps on the GPU against the CPU: the same graphs, weights and batches.
#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/runtime/row_parts.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

class CudaProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// Every output of the step, within the bound of what the CPU gives.
void expect_cpu(const TrainingCase& each, const char* precision, double bound) {
  SCOPED_TRACE(fmt::format("{} in {}", each.name, precision));
  auto graph = lowered(each, Precision::named(precision));
  Bindings bindings = training_bindings(*graph);
  ProgramRun cpu(graph, bindings), gpu(graph, bindings, {}, cuda_device());
  cpu.program.run(0);
  gpu.program.run(0);
  for (const auto& [name, value] : graph->outputs()) {
    double error =
        relative_error(tensor_of(gpu.program.output(name)), tensor_of(cpu.program.output(name)));
    EXPECT_LE(error, bound) << name;
  }
}

TEST_F(CudaProgram, GivesTheGradientsOfTheCpu) {
  for (const TrainingCase& each : training_cases()) expect_cpu(each, "fp32", 1e-4);
}

TEST_F(CudaProgram, GivesTheSameBitsAgain) {
  for (const TrainingCase& each : training_cases()) {
    for (const char* precision : {"fp32", "fp16", "fp8"}) {
      auto graph = lowered(each, Precision::named(precision));
      Bindings bindings = training_bindings(*graph);
      ProgramRun run(graph, bindings, {}, cuda_device());
      auto bits = [&] {
        run.program.run(0);
        std::map<std::string, std::vector<float>> all;
        for (const auto& [name, value] : graph->outputs()) {
          all[name] = read_floats(run.program.output(name));
        }
        return all;
      };
      auto first = bits();
      EXPECT_EQ(first, bits()) << each.name << " in " << precision;
    }
  }
}

// Queries, keys and values are read out of one product's rows, and their gradients written so.
TEST_F(CudaProgram, AttendsToPartsOfRows) {
  TrainingCase wide{"gpt",
                    "gpt",
                    {.batch = 25,
                     .time = 128,
                     .width = 256,
                     .hidden = 256,
                     .depth = 1,
                     .heads = 4,
                     .vocabulary = 64,
                     .residual = "running-mean"}};
  auto graph = lowered(wide, Precision::named("fp16"));
  EXPECT_EQ(find_row_parts(*graph, cuda_device()).size(), 2U);
  expect_cpu(wide, "fp16", 2e-2);
}

// Biases' gradients are summed up by the chain that computes, or casts, what they are gradients of.
TEST_F(CudaProgram, SumsUpBesideChains) {
  TrainingCase tall{"gpt",
                    "gpt",
                    {.batch = 34,
                     .time = 128,
                     .width = 128,
                     .hidden = 256,
                     .depth = 1,
                     .heads = 2,
                     .vocabulary = 64,
                     .residual = "running-mean"}};
  for (auto [precision, wanted] : {std::pair{"fp16", 1}, {"fp8", 2}}) {
    auto graph = lowered(tall, Precision::named(precision));
    auto sums_beside = [&](const NodeGroup& group) {
      return group.kind == NodeGroup::Kind::pointwise && group.nodes.size() > 1 &&
             graph->node(group.nodes.back()).op == &sum_op;
    };
    EXPECT_EQ(
        std::ranges::count_if(group_nodes(*graph, cuda_device().grouping(*graph)), sums_beside),
        wanted)
        << precision;
  }
  expect_cpu(tall, "fp16", 2e-2);
}

}  // namespace
}  // namespace sigma1
