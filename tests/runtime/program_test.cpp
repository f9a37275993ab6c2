#include "sigma1/runtime/program.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/ops/cast.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/runtime/gemm_floor.h"
#include "tests/runtime/run_program.h"
#include "tests/theorem/random_graph.h"

namespace sigma1 {
namespace {

// Every output within the bound of the reference on the same graph and sources.
void expect_reference(ProgramRun& run, double bound) {
  run.program.run(0);
  ReferenceResult want = run_reference(*run.graph, run.bindings);
  for (const auto& [name, value] : run.graph->outputs()) {
    double error = relative_error(tensor_of(run.program.output(name)), want[value]);
    EXPECT_LE(error, bound) << name;
  }
}

TEST(Program, EqualsTheReferenceInSinglePrecision) {
  for (const TrainingCase& each : training_cases()) {
    for (int scheme = 0; scheme < 3; ++scheme) {
      SCOPED_TRACE(fmt::format("{}, scheme {}", each.name, scheme));
      auto graph = std::make_shared<Graph>();
      build_training_graph(
          *graph, each,
          scheme == 0 ? std::nullopt : std::optional(scheme == 1 ? Scheme::paper : Scheme::exact));
      Bindings bindings = training_bindings(*graph);
      ProgramRun plain(graph, bindings);
      expect_reference(plain, 1e-5);
      ProgramRun run(lowered(each, Precision::named("fp32")), bindings);
      expect_reference(run, 1e-5);
    }
  }
}

// Chains, shared values, several losses: bytes are reused wherever they may be, and nowhere else.
TEST(Program, EqualsTheReferenceOnRandomModels) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto graph = std::make_shared<Graph>();
    build_random_model(*graph, seed);
    mark_gradients(*graph);
    if (seed % 2 == 0) fold(*graph);
    ProgramRun run(graph, random_bindings(*graph, seed));
    expect_reference(run, 1e-4);
    run.program.run(0);  // nothing is left from the first run
    expect_reference(run, 1e-4);
  }
}

// The step of a format at a number.
double last_place(double x, const FloatFormat& format) {
  int exponent = std::max(std::ilogb(std::max(std::fabs(x), 1e-300)), format.min_exponent());
  return std::ldexp(1.0, exponent - format.mantissa_bits);
}

// From the same inputs both round at the same places, sums that differ in fp32's last ones: most
// numbers are equal, a few are neighbours. A rounding too many, too few or in another direction
// makes far more differ.
void expect_same_rounding(const Tensor& got, const Tensor& want, const Cast& cast) {
  constexpr double kShare = 0.05, kSum = 1e-5;
  double largest = 0;
  for (double x : want.data) largest = std::max(largest, std::fabs(x));
  int64_t different = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    if (got[i] == want[i]) continue;
    ++different;
    ASSERT_LE(std::fabs(got[i] - want[i]), last_place(want[i], cast.format) + kSum * largest) << i;
  }
  if (cast.format.bits() == 32) return;
  EXPECT_LE(different,
            std::max<int64_t>(2, static_cast<int64_t>(kShare * static_cast<double>(want.count()))));
}

// Node by node, each from what the program made of the nodes before: a neighbour in one product is
// many in the next, and says nothing about that.
TEST(Program, EqualsTheReferenceInFewerBits) {
  using Key = std::pair<std::string, size_t>;
  for (const TrainingCase& each : training_cases()) {
    for (const char* precision : {"fp16", "bf16", "fp8"}) {
      SCOPED_TRACE(fmt::format("{} in {}", each.name, precision));
      auto graph = lowered(each, Precision::named(precision));
      ProgramRun run(graph, training_bindings(*graph));
      unround_fused(*graph);
      std::map<Key, Tensor> got;
      run.program.run(0, [&](const Node& node, size_t output, const Buffer& buffer) {
        if (buffer.kind == Kind::real) got[{node.name, output}] = tensor_of(buffer);
      });
      size_t judged = 0;
      run_reference(*graph, run.bindings, 0, [&](const Node& node, std::vector<Tensor>& outputs) {
        for (size_t o = 0; o < outputs.size(); ++o) {
          auto found = got.find({node.name, o});
          if (found == got.end()) continue;
          SCOPED_TRACE(node.name);
          expect_same_rounding(found->second, outputs[o], storage(node, o));
          outputs[o] = found->second;
          ++judged;
        }
      });
      EXPECT_EQ(judged, got.size());
    }
  }
}

TEST(Program, HistoriesOfDelayedCastsGoOnFromRunToRun) {
  TrainingCase mlp = training_cases().front();
  auto graph = lowered(mlp, delayed_fp8());
  Bindings given = training_bindings(*graph);
  std::vector<std::string> histories;
  Names stored;
  for (const auto& [name, value] : graph->outputs()) {
    if (!name.ends_with("/amax_history")) continue;
    stored[name] = name;
    histories.push_back(name);
    given[name] = Tensor({kAmaxHistory});
  }
  ASSERT_GE(histories.size(), 5u);
  ProgramRun run(graph, given, stored);
  Bindings bindings = run.bindings;
  for (int step = 0; step < 18; ++step) {
    SCOPED_TRACE(step);
    for (double& x : given["x"].data) x *= step % 3 == 0 ? 4 : 0.6;
    write_sources(run.store, {{"x", given["x"]}});
    bindings["x"] = tensor_of(run.store.at("x"));
    run.program.run(static_cast<uint64_t>(step));
    ReferenceResult want = run_reference(*graph, bindings);
    for (const std::string& name : histories) {
      bindings[name] = want[graph->output(name)];
      Tensor got = tensor_of(run.store.at(name));
      EXPECT_LE(relative_error(got, bindings[name]), 0.02) << name;
      for (int64_t i = 0; i < kAmaxHistory; ++i) ASSERT_EQ(got[i] > 0, i <= step) << name;
    }
  }
  Tensor of_x = tensor_of(run.store.at("x/as_e4m3/amax_history"));
  double largest = 0;
  for (double x : given["x"].data) largest = std::max(largest, std::fabs(x));
  EXPECT_EQ(of_x[0], static_cast<float>(largest));
}

TEST(Program, NamesTheFirstThatIsNotFinite) {
  TrainingCase mlp = training_cases().front();
  auto graph = lowered(mlp, Precision::named("fp16"));
  Bindings bindings = training_bindings(*graph);
  const std::pair<const char*, const char*> plants[] = {
      {"layer0/dense/weight", "layer0/dense/linear"},
      {"layer1/dense/bias", "layer1/dense/linear"},
      {"head/weight", "head/linear"}};
  for (auto [parameter, reader] : plants) {
    for (float planted : {NAN, INFINITY}) {
      ProgramRun run(graph, bindings);
      EXPECT_EQ(run.program.first_non_finite(0), "");
      std::vector<float> values = run.store.read(parameter);
      values[values.size() / 2] = planted;
      run.store.write(parameter, values);
      EXPECT_EQ(run.program.first_non_finite(0), reader);
    }
  }
}

// Of a node with several outputs, which; and what overflows is not hidden.
TEST(Program, NamesTheOutputThatOverflows) {
  auto graph = std::make_shared<Graph>();
  Value x = graph->input("x", {{2, 4}});
  Value large = scale(x, 1e4);
  std::vector<Value> halves = split(large, 1, 2);
  graph->node(halves[0].node).output_factors = {1, 10};
  graph->mark_output("a", halves[0]);
  graph->mark_output("b", halves[1]);
  graph->mark_output("large", large);
  lower_precision(*graph, Precision::named("fp16"));
  ProgramRun run(graph, {{"x", Tensor({2, 4}, {1, 1, 1, 1, 1, 1, 2, 1})}});
  EXPECT_EQ(run.program.first_non_finite(0), "split (output 1)");
}

TEST(Program, ObserversSeeWhatIsComputed) {
  auto graph = std::make_shared<Graph>();
  Value x = graph->input("x", {{2, 2}});
  graph->mark_output("y", matmul(tanh(relu(x)), x));
  ProgramRun run(graph, {{"x", Tensor({2, 2}, {1, 2, -3, 4})}});
  std::vector<std::string> seen;
  run.program.run(0, [&](const Node& node, size_t output, const Buffer& buffer) {
    EXPECT_EQ(output, 0u);
    seen.push_back(node.name);
    if (node.name != "tanh") return;
    EXPECT_FLOAT_EQ(read_floats(buffer)[1], std::tanh(2.0f));
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"tanh", "matmul"}));  // relu is inside the chain
  std::vector<InstructionTime> times = run.program.profile(0);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[1].name, "matmul");
  EXPECT_EQ(times[1].op, "matmul");
}

TEST(Program, MistakesAreNamed) {
  auto graph = std::make_shared<Graph>();
  Value logits = graph->input("logits", {{3, 4}}), targets = graph->input("t", {{3}, Kind::index});
  Graph::Path path(*graph, "head");
  graph->mark_output("loss", softmax_xent(logits, targets));
  Bindings bindings{{"logits", Tensor({3, 4})}, {"t", Tensor({3}, {0, 4, 1})}};
  ProgramRun run(graph, bindings);
  try {
    run.program.run(0);
    FAIL() << "took a target that is no logit";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("head/softmax_xent"), std::string::npos);
  }
  EXPECT_THROW(run.program.output("scores"), Bug);
}

TEST(GemmFloor, IsTheTimeOfTheProducts) {
  TrainingCase mlp = training_cases().front();
  auto graph = lowered(mlp, Precision::named("fp32"));
  ProgramRun run(graph, training_bindings(*graph));
  double floor = gemm_floor(run.program, 1);
  EXPECT_GT(floor, 0);
  EXPECT_LT(floor, 1);
  auto still = std::make_shared<Graph>();
  still->mark_output("y", relu(still->input("x", {{4}})));
  ProgramRun none(still, {{"x", Tensor({4})}});
  EXPECT_EQ(gemm_floor(none.program, 1), 0);
}

}  // namespace
}  // namespace sigma1
