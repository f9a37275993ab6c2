// Layers whose products have factors of 8 bits: the three products of a training step against the
// CPU's.
#include <gtest/gtest.h>

#include <cstdio>

#include "sigma1/backend/cuda/device.h"
#include "tests/gpu/eight_bit_case.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

Bindings random_inputs(const Graph& graph) {
  Bindings bindings;
  for (const Node& node : graph.nodes()) {
    if (!node.inputs.empty()) continue;
    Tensor tensor(node.outputs.front().shape);
    RandomStream random(7, node.name, 0);
    for (int64_t i = 0; i < tensor.count(); ++i)
      tensor[i] = random.normal(static_cast<uint64_t>(i));
    bindings[node.name] = std::move(tensor);
  }
  return bindings;
}

class EightBits : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// Sums of fast products have some 14 bits; results are rounded to 11.
TEST_F(EightBits, GiveTheProductsOfTheCpu) {
  for (LayerSizes sizes : {LayerSizes{256, 128, 384}, {4608, 80, 48}, {48, 1024, 16}}) {
    auto graph = layer_graph(sizes);
    Bindings bindings = random_inputs(*graph);
    ProgramRun cpu(graph, bindings), gpu(graph, bindings, {}, cuda_device());
    cpu.program.run(0);
    gpu.program.run(0);
    for (const auto& [name, value] : graph->outputs()) {
      double error =
          relative_error(tensor_of(gpu.program.output(name)), tensor_of(cpu.program.output(name)));
      EXPECT_LE(error, 1e-3) << name << " of " << sizes.rows << " rows";
    }
  }
}

// The error of a long sum, in fp32, where it is summed as asked and by default. The exact way adds
// up in fp32 what tensor cores sum of some 128 terms, whose last of 14 bits is off by half.
TEST_F(EightBits, SumAsAsked) {
  constexpr LayerSizes kSizes{16384, 128, 256};
  auto graph = layer_graph(kSizes, "fp32");
  Bindings bindings = random_inputs(*graph);
  ProgramRun cpu(graph, bindings);
  cpu.program.run(0);
  auto error_on = [&](const char* device) {
    ProgramRun gpu(graph, bindings, {}, find_device(device));
    gpu.program.run(0);
    double error =
        relative_error(tensor_of(gpu.program.output("dw")), tensor_of(cpu.program.output("dw")));
    std::printf("sums of %lld products, %s: error %.2e\n", static_cast<long long>(kSizes.rows),
                device, error);
    return error;
  };
  double by_length = error_on("cuda"), exact = error_on("cuda+exact-sums");
  double fast = error_on("cuda+fast-sums");
  EXPECT_EQ(by_length, exact);
  EXPECT_LE(exact, 2e-4);
  EXPECT_GT(fast, 2 * exact);
  EXPECT_LE(fast, 1e-2);
}

}  // namespace
}  // namespace sigma1
