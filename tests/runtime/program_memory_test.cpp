// What a program does with memory: it allocates nothing, overwrites nothing that is needed, and
// leaves in the store what belongs there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"
#include "tests/runtime/count_allocations.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

Names under_own_names(const Graph& graph) {
  Names names;
  for (const auto& [name, value] : graph.outputs()) names[name] = name;
  return names;
}

class Threads {
 public:
  explicit Threads(int count) { set_thread_count(count); }
  ~Threads() { set_thread_count(0); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
};

TEST(ProgramMemory, ARunAllocatesNothing) {
  for (const TrainingCase& each : training_cases()) {
    for (const Precision& precision :
         {Precision::named("fp32"), Precision::named("bf16"), delayed_fp8()}) {
      auto graph = lowered(each, precision);
      ProgramRun run(graph, training_bindings(*graph), under_own_names(*graph));
      for (int threads : {1, 2}) {
        Threads limit(threads);
        run.program.run(0);
        // A worker's own room is made when it first helps, which may be late.
        auto count = [&] { return threads == 1 ? allocation_count() : own_allocation_count(); };
        int64_t before = count();
        for (uint64_t step = 1; step < 4; ++step) run.program.run(step);
        EXPECT_EQ(count() - before, 0)
            << each.name << ", " << precision.activations << ", " << threads << " threads";
      }
    }
  }
}

TEST(ProgramMemory, AStochasticUpdateAllocatesNothing) {
  auto graph = std::make_shared<Graph>();
  Value w = graph->parameter("layer0/attention/query/weight", {300}, {});
  Value next = scale(w, 0.99);
  graph->node(w.node).storage = {storage_cast("bf16")};
  graph->node(next.node).storage = {storage_cast("bf16")};
  graph->node(next.node).storage[0].rounding = Rounding::stochastic;
  graph->mark_output("next", next);
  ProgramRun run(graph, {{"layer0/attention/query/weight", normal_tensor({300}, "w", 1)}});
  run.program.run(0);
  Bytes first = bytes_of(run.program.output("next"));
  int64_t before = allocation_count();
  run.program.run(1);
  EXPECT_EQ(allocation_count() - before, 0);
  EXPECT_NE(bytes_of(run.program.output("next")), first);
  run.program.run(0);
  EXPECT_EQ(bytes_of(run.program.output("next")), first);
}

TEST(ProgramMemory, BitsAreTheSameFromRunToRun) {
  for (const TrainingCase& each : training_cases()) {
    for (const char* precision : {"fp32", "fp8"}) {
      auto graph = lowered(each, Precision::named(precision));
      Bindings bindings = training_bindings(*graph);
      for (int threads : {1, 2, 3}) {
        Threads limit(threads);
        ProgramRun run(graph, bindings), other(graph, bindings);
        run.program.run(0);
        std::map<std::string, Bytes> bits = run.bits();
        run.program.run(0);
        other.program.run(0);
        EXPECT_EQ(run.bits(), bits) << each.name << " in " << precision;
        EXPECT_EQ(other.bits(), bits) << each.name << " in " << precision;
      }
    }
  }
}

// All but matrix products, whose library may cut its sums by the number of threads; large enough
// for each op to be cut in pieces.
TEST(ProgramMemory, BitsDoNotDependOnTheNumberOfThreads) {
  auto graph = std::make_shared<Graph>();
  Value table = graph->parameter("table", {50, 64}, {}), gain = graph->parameter("gain", {64}, {});
  Value bias = graph->parameter("bias", {64}, {});
  Value ids = graph->input("ids", {{1500}, Kind::index});
  Value x = layer_norm(embedding(table, ids), gain, bias);
  Value y = weighted_add({dropout(gelu(x), 0.2, "drop"), softmax(x), x}, {0.5, 3, 1});
  graph->mark_output("loss", softmax_xent(transpose(reshape(y, {1500, 64}), {0, 1}), ids));
  mark_gradients(*graph);
  fold(*graph);
  lower_precision(*graph, Precision::named("bf16"));
  Bindings bindings = training_bindings(*graph);
  std::map<std::string, Bytes> bits;
  for (int threads : {1, 2, 3}) {
    Threads limit(threads);
    ProgramRun run(graph, bindings);
    run.program.run(5);
    if (threads == 1) bits = run.bits();
    EXPECT_EQ(run.bits(), bits) << threads << " threads";
  }
}

TEST(ProgramMemory, OutputsLieInTheStore) {
  for (const TrainingCase& each : training_cases()) {
    auto graph = lowered(each, Precision::named("fp16"));
    Bindings bindings = training_bindings(*graph);
    Names stored;
    for (const auto& [name, value] : graph->outputs()) stored[name] = "kept/" + name;
    ProgramRun run(graph, bindings, stored), free_run(graph, bindings);
    run.program.run(0);
    free_run.program.run(0);
    for (const auto& [name, value] : graph->outputs()) {
      const Buffer& kept = run.store.at("kept/" + name);
      EXPECT_EQ(kept.data, run.program.output(name).data) << name;
      EXPECT_EQ(bytes_of(kept), bytes_of(free_run.program.output(name))) << name;
      EXPECT_FALSE(free_run.store.contains("kept/" + name));
    }
    EXPECT_LE(run.program.memory().arena, free_run.program.memory().arena);
  }
}

// A view of what is stored, and one value under two names of the graph.
TEST(ProgramMemory, ViewsOfStoredValuesAreStored) {
  auto graph = std::make_shared<Graph>();
  Value x = graph->input("x", {{4}}), w = graph->parameter("w", {4}, {});
  Value bent = relu(x);
  graph->mark_output("view", reshape(bent, {2, 2}));
  graph->mark_output("again", reshape(bent, {4, 1}));
  graph->mark_output("copy", reshape(w, {2, 2}));
  graph->mark_output("constant", reshape(graph->constant({4}, 3), {2, 2}));
  ProgramRun run(graph, {{"x", Tensor({4}, {-1, 2, 3, -4})}, {"w", Tensor({4}, {5, 6, 7, 8})}},
                 under_own_names(*graph));
  run.program.run(0);
  EXPECT_EQ(run.store.read("view"), (std::vector<float>{0, 2, 3, 0}));
  EXPECT_EQ(run.store.read("again"), (std::vector<float>{0, 2, 3, 0}));
  EXPECT_EQ(run.store.read("copy"), (std::vector<float>{5, 6, 7, 8}));
  EXPECT_EQ(run.store.read("constant"), (std::vector<float>{3, 3, 3, 3}));
}

TEST(ProgramMemory, WhatWouldHaveToBeCopiedIsRefused) {
  auto refuses = [](Value (*output)(Graph&), const Names& stored) {
    auto graph = std::make_shared<Graph>();
    Value value = output(*graph);
    graph->mark_output("a", value);
    graph->mark_output("b", value);
    Store store;
    EXPECT_THROW(Program(graph, store, stored), Bug);
  };
  refuses([](Graph& graph) { return relu(graph.input("x", {{4}})); }, {{"a", "p"}, {"b", "q"}});
  refuses([](Graph& graph) { return graph.input("x", {{4}}); }, {{"a", "p"}});
  refuses([](Graph& graph) { return graph.constant({4}, 1); }, {{"a", "p"}});
}

// An optimiser's step: the parameter's next value takes its place.
TEST(ProgramMemory, AStepWritesWhereItReads) {
  auto graph = std::make_shared<Graph>();
  Value w = graph->parameter("w", {3}, {}), g = graph->input("g", {{3}});
  graph->mark_output("next", weighted_add({w, g}, {1, -0.5}));
  ProgramRun run(graph, {{"w", Tensor({3}, {1, 2, 3})}, {"g", Tensor({3}, {2, 4, 8})}},
                 {{"next", "w"}});
  run.program.run(0);
  EXPECT_EQ(run.store.read("w"), (std::vector<float>{0, 0, -1}));
  run.program.run(1);
  EXPECT_EQ(run.store.read("w"), (std::vector<float>{-1, -2, -5}));
  EXPECT_EQ(run.store.read("g"), (std::vector<float>{2, 4, 8}));
}

TEST(ProgramMemory, ProgramsShareAStore) {
  auto step = std::make_shared<Graph>(), look = std::make_shared<Graph>();
  step->mark_output("next", scale(step->parameter("w", {3}, {}), 2));
  look->mark_output("sum", sum(look->parameter("w", {3}, {}), {0}));
  Store store;
  Program first(step, store, {{"next", "w"}}), second(look, store);
  store.write("w", std::vector<float>{1, 2, 3});
  for (float want : {12.0f, 24.0f}) {
    first.run(0);
    second.run(0);
    EXPECT_EQ(second.scalar("sum"), want);
  }
}

// What is written over must have been read for the last time.
TEST(ProgramMemory, OverwritingWhatIsStillReadIsABug) {
  auto builds = [](auto&& fill) {
    auto graph = std::make_shared<Graph>();
    fill(*graph, graph->parameter("w", {4, 4}, {}));
    Store store;
    Program program(graph, store, {{"next", "w"}});
  };
  // Read by a later node.
  EXPECT_THROW(builds([](Graph& graph, Value w) {
                 Value next = sum(mul(graph.constant({2, 4, 4}, 1), w), {0});
                 graph.mark_output("next", next);
                 graph.mark_output("late", matmul(next, w));
               }),
               Bug);
  // Read by the same kernel, which cannot work in place.
  EXPECT_THROW(builds([](Graph& graph, Value w) { graph.mark_output("next", matmul(w, w)); }), Bug);
  EXPECT_THROW(builds([](Graph& graph, Value w) {
                 graph.mark_output("next", transpose(w, {1, 0}));
               }),
               Bug);
  // Asked for, by another name, as it was.
  EXPECT_THROW(builds([](Graph& graph, Value w) {
                 graph.mark_output("next", relu(w));
                 graph.mark_output("before", w);
               }),
               Bug);
  EXPECT_THROW(builds([](Graph& graph, Value w) {
                 graph.mark_output("next", relu(w));
                 graph.mark_output("before", reshape(w, {16}));
               }),
               Bug);
  // Nobody reads it any more.
  EXPECT_NO_THROW(builds([](Graph& graph, Value w) {
    Value early = matmul(w, w);
    graph.mark_output("next", relu(early));
  }));
  EXPECT_NO_THROW(builds([](Graph& graph, Value w) {
    graph.mark_output("next", tanh(scale(relu(w), 2)));  // a chain works in place
  }));
}

TEST(ProgramMemory, TheArenaIsNearTheBound) {
  for (const TrainingCase& each : training_cases()) {
    for (const char* precision : {"fp32", "fp16", "fp8"}) {
      auto graph = lowered(each, Precision::named(precision));
      Store store;
      Program program(graph, store, under_own_names(*graph));
      MemoryUse memory = program.memory();
      EXPECT_GT(memory.lower_bound, 0);
      EXPECT_GE(memory.arena, memory.lower_bound);
      EXPECT_LE(static_cast<double>(memory.arena), 1.1 * static_cast<double>(memory.lower_bound))
          << each.name << " in " << precision;
    }
  }
}

TEST(ProgramMemory, AStepInHalfTheBitsTakesHalfTheArena) {
  std::vector<TrainingCase> cases = training_cases();
  TrainingCase gpt = *std::ranges::find(cases, "gpt", &TrainingCase::name);
  auto arena = [&](const char* precision) {
    Store store;
    return static_cast<double>(
        Program(lowered(gpt, Precision::named(precision)), store).memory().arena);
  };
  EXPECT_NEAR(arena("fp16") / arena("fp32"), 0.5, 0.05);
}

}  // namespace
}  // namespace sigma1
