#include "sigma1/runtime/compiler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/ops/pointwise.h"
#include "tests/backend/cpu_like.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

// Its relu gives the number of the node's calls so far, and spoils the workspace.
class CountingDevice : public CpuLike {
 public:
  Grouping grouping(const Graph&) const override {
    return {.is_pointwise = [](const Node&) { return false; }};
  }
  const Kernel& find_kernel(const OpDef& op) const override {
    static const Kernel counting{.op = &relu_op,
                                 .run = count,
                                 .workspace = [](const Launch&) { return int64_t{64}; },
                                 .state = [](const Launch&) -> int64_t { return sizeof(int32_t); }};
    return &op == &relu_op ? counting : CpuLike::find_kernel(op);
  }

 private:
  static void count(const Launch& launch) {
    std::ranges::fill(launch.workspace, std::byte{0xFF});
    auto calls = static_cast<float>(++*reinterpret_cast<int32_t*>(launch.state.data()));
    std::fill_n(launch.out().floats(), launch.out().count(), calls);
  }
};

TEST(Compiler, ANodeFindsTheStateItLeft) {
  auto graph = std::make_shared<Graph>();
  Value x = graph->input("x", {{3}});
  graph->mark_output("first", relu(x));
  graph->mark_output("second", relu(x));
  CountingDevice device;
  ProgramRun run(graph, {}, {}, device), beside(graph, {}, {}, device);
  for (double calls : {1, 2, 3}) {
    run.program.run(0);
    for (const char* name : {"first", "second"}) {
      EXPECT_EQ(tensor_of(run.program.output(name)).data, std::vector<double>(3, calls)) << name;
    }
  }
  beside.program.run(0);
  EXPECT_EQ(tensor_of(beside.program.output("first")).data, std::vector<double>(3, 1.0));
}

}  // namespace
}  // namespace sigma1
