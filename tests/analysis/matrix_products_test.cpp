#include "sigma1/analysis/matrix_products.h"

#include <gtest/gtest.h>

#include <set>

#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/catalogue.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

// What the CPU multiplies in a step.
int64_t logged_flops(const TrainingCase& of) {
  std::shared_ptr<Graph> graph = lowered(of, Precision::named("fp32"));
  ProgramRun run(graph, training_bindings(*graph));
  cpu::GemmLog log;
  run.program.run(0);
  int64_t flops = 0;
  for (const cpu::GemmCall& call : log.calls()) {
    flops += call.count * 2 * call.product.m * call.product.n * call.product.k;
  }
  return flops;
}

int64_t counted_flops(const TrainingCase& of, const OpDef* only = nullptr) {
  int64_t flops = 0;
  std::shared_ptr<Graph> graph = lowered(of, Precision::named("fp32"));
  for (const Node& node : graph->nodes()) {
    if (only != nullptr && node.op != only) continue;
    for (const MatrixProduct& product : matrix_products(node)) flops += product.flops();
  }
  return flops;
}

TrainingCase find_case(const std::string& name) {
  for (const TrainingCase& each : training_cases()) {
    if (each.name == name) return each;
  }
  throw Bug("no case {}", name);
}

TEST(MatrixProducts, AreThoseTheCpuMultiplies) {
  for (const char* name : {"mlp", "ffn", "char_lm_conv"}) {
    TrainingCase each = find_case(name);
    EXPECT_EQ(counted_flops(each), logged_flops(each)) << name;
  }
}

// The kernel of the gradient computes the gates again, which is not what the gradient needs.
TEST(MatrixProducts, OfARecurrenceAreThoseTheCpuMultipliesLessWhatItRepeats) {
  TrainingCase each = find_case("char_lm_rnn");
  int64_t repeated = counted_flops(each, &find_op("recurrent_highway"));
  EXPECT_EQ(counted_flops(each) + repeated, logged_flops(each));
}

// So is the gradient of attention; and up to 64 positions are one block, of which it multiplies all
// pairs and masks them afterwards.
TEST(MatrixProducts, OfAttentionAreThoseTheCpuMultipliesLessWhatItRepeats) {
  for (const char* name : {"transformer", "gpt", "char_lm"}) {
    TrainingCase each = find_case(name);
    std::shared_ptr<Graph> graph = lowered(each, Precision::named("fp32"));
    int64_t flops = 0;
    for (const Node& node : graph->nodes()) {
      std::vector<MatrixProduct> products = matrix_products(node);
      for (MatrixProduct& product : products) {
        product.share = 1;
        flops += product.flops();
      }
      if (node.op != &attention_op) continue;
      for (size_t i = 0; i + 1 < products.size(); ++i) flops += products[i].flops();
    }
    EXPECT_EQ(flops, logged_flops(each)) << name;
  }
}

TEST(MatrixProducts, OfAttention) {
  Graph graph;
  Value x = graph.input("x", {{3, 8, 10}}), relative = graph.parameter("r", {8, 10}, {});
  Value whole = attention(x, x, x, {.heads = 2});
  Value causal = attention(x, x, x, {.heads = 2, .causal = true});
  Value placed = attention(x, x, x, {.heads = 2, .causal = true, .relative = relative});
  auto flops = [&](Value value) {
    std::vector<int64_t> each;
    for (const MatrixProduct& product : matrix_products(graph.node(value.node))) {
      each.push_back(product.flops());
    }
    return each;
  };
  int64_t all_pairs = 3 * 2 * 64, seen_pairs = 3 * 2 * 36;
  EXPECT_EQ(flops(whole), (std::vector<int64_t>(2, 2 * 5 * all_pairs)));
  EXPECT_EQ(flops(causal), (std::vector<int64_t>(2, 2 * 5 * seen_pairs)));
  EXPECT_EQ(flops(placed), (std::vector<int64_t>(3, 2 * 5 * seen_pairs)));
}

// Forward, then twice as much, the gradients of data that nothing asks for included.
TEST(MatrixProducts, OfBackwardAreTwiceThoseOfForward) {
  for (const TrainingCase& each : training_cases()) {
    Graph forward, step;
    build_model(forward, each.model, each.config);
    build_training_graph(step, each);
    EXPECT_EQ(product_flops(step), 3 * product_flops(forward)) << each.name;
    keep_attention(step, [](const Graph&, int) { return true; });
    EXPECT_EQ(product_flops(step), 3 * product_flops(forward)) << each.name << ", kept";
  }
}

TEST(MatrixProducts, AreKnownOfEveryOpThatMultiplies) {
  std::set<std::string_view> met, all;
  for (const TrainingCase& each : training_cases()) {
    Graph step;
    build_training_graph(step, each);
    auto meet = [&] {
      for (const Node& node : step.nodes()) {
        if (!matrix_products(node).empty()) met.insert(node.op->name);
      }
    };
    meet();
    keep_attention(step, [](const Graph&, int) { return true; });
    meet();
  }
  for (const OpDef* op : op_catalogue()) {
    if (op->multiplies != nullptr) all.insert(op->name);
  }
  EXPECT_EQ(met, all);
}

TEST(MatrixProducts, OfABatchOfMatrices) {
  Graph graph;
  Value x = graph.input("x", {{7, 3, 5}}), w = graph.input("w", {{7, 4, 3}}),
        shared = graph.input("shared", {{5, 2}});
  Value y = matmul(x, w, {true, true}), z = matmul(x, shared);
  std::vector<MatrixProduct> batch = matrix_products(graph.node(y.node)),
                             one = matrix_products(graph.node(z.node));
  ASSERT_EQ(batch.size(), 1U);
  EXPECT_EQ(batch[0].count, 7);
  EXPECT_EQ(batch[0].flops(), 2 * 7 * 5 * 3 * 4);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].b, 21);
  EXPECT_EQ(one[0].count, 1);
  EXPECT_EQ(one[0].flops(), 2 * 21 * 5 * 2);
  EXPECT_TRUE(matrix_products(graph.node(relu(x).node)).empty());
}

}  // namespace
}  // namespace sigma1
