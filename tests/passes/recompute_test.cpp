#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/verify.h"
#include "sigma1/ops/norm.h"
#include "sigma1/passes/lowering.h"
#include "tests/models/training_graph.h"
#include "tests/passes/same_outputs.h"

namespace sigma1 {
namespace {

constexpr Recompute kAll[] = {Recompute::norms, Recompute::activations, Recompute::blocks};

int64_t count_again(const Graph& graph) {
  return std::ranges::count(graph.nodes(), true, &Node::again);
}

TEST(Recompute, GivesTheSameLossAndGradients) {
  for (const TrainingCase& each : training_cases()) {
    for (Recompute what : kAll) {
      SCOPED_TRACE(each.name);
      Graph graph;
      build_training_graph(graph, each, Scheme::paper);
      fold(graph);
      Bindings bindings = training_bindings(graph);
      Outputs before = outputs_of(graph, bindings);
      recompute(graph, what);
      verify(graph);
      expect_same_outputs(outputs_of(graph, bindings), before, 0);
      fuse_loss(graph);
      expect_same_outputs(outputs_of(graph, bindings), before, 1e-12);
    }
  }
}

// A norm's result is read by the products' gradients; the last one's, shifted, is not its own.
TEST(Recompute, BackwardReadsNothingThatIsForgotten) {
  for (const TrainingCase& each : training_cases()) {
    if (each.model != "gpt") continue;
    Graph graph;
    build_training_graph(graph, each, Scheme::paper);
    fold(graph);
    recompute(graph, Recompute::norms);
    remove_dead_nodes(graph);
    int64_t norms = 0, early_readers = 0;
    for (const Node& node : graph.nodes()) {
      bool is_norm = node.op == &layer_norm_op || node.op == &rms_norm_op;
      norms += is_norm && node.again;
      for (Value input : node.inputs) {
        const Node& read = graph.node(input.node);
        bool of_norm = read.op == &layer_norm_op || read.op == &rms_norm_op;
        early_readers += of_norm && !read.again && node.name.starts_with("grad/");
      }
    }
    EXPECT_EQ(norms, 2 * each.config.depth) << each.name;
    EXPECT_EQ(early_readers, 0) << each.name;
  }
}

TEST(Recompute, BlocksForgetMoreThanActivationsAndNothingIsNothing) {
  for (const TrainingCase& each : training_cases()) {
    if (each.model != "gpt") continue;
    auto again = [&](Recompute what) {
      Graph graph;
      build_training_graph(graph, each, Scheme::paper);
      fold(graph);
      recompute(graph, what);
      return count_again(graph);
    };
    EXPECT_EQ(again(Recompute::nothing), 0);
    EXPECT_GT(again(Recompute::activations), 0);
    EXPECT_GT(again(Recompute::blocks), again(Recompute::activations));
  }
}

TEST(Recompute, IsParsed) {
  EXPECT_EQ(parse_recompute("none"), Recompute::nothing);
  EXPECT_EQ(parse_recompute("blocks"), Recompute::blocks);
  EXPECT_THROW(parse_recompute("all"), Error);
}

}  // namespace
}  // namespace sigma1
