#include "sigma1/nn/layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "sigma1/backend/reference.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/positions.h"

namespace sigma1 {
namespace {

constexpr int64_t kBatch = 2, kTime = 5, kWidth = 24, kHeads = 6, kD = kWidth / kHeads;

std::set<std::string> parameter_names(const Graph& graph) {
  std::set<std::string> names;
  for (Value parameter : graph.parameters()) names.insert(graph.node(parameter.node).name);
  return names;
}

Tensor attention_of(const SelfAttention& options, const Bindings& weights) {
  Graph graph;
  Value x = graph.input("x", {{kBatch, kTime, kWidth}});
  Value y = self_attention("a", x, options);
  Bindings bindings = weights;
  bindings["x"] = normal_tensor({kBatch, kTime, kWidth}, "x", 1);
  return run_reference(graph, bindings)[y];
}

// Columns [from, from + count) of a matrix.
void copy_columns(const Tensor& from, int64_t first, Tensor& to, int64_t at, int64_t count) {
  for (int64_t row = 0; row < from.dim(0); ++row) {
    for (int64_t c = 0; c < count; ++c) {
      to[row * to.dim(1) + at + c] = from[row * from.dim(1) + first + c];
    }
  }
}

// A group's heads have the same keys and values: plain attention whose weights repeat them gives
// the same, rotary positions and all.
TEST(SelfAttention, GroupedQueriesShareKeysAndValues) {
  constexpr int64_t kKv = 2, kGroup = kHeads / kKv;
  Bindings grouped{{"a/q/weight", normal_tensor({kWidth, kWidth}, "q", 1)},
                   {"a/kv/weight", normal_tensor({kWidth, 2 * kKv * kD}, "kv", 1)},
                   {"a/out/weight", normal_tensor({kWidth, kWidth}, "out", 1)}};
  Bindings plain{{"a/out/weight", grouped["a/out/weight"]}};
  Tensor all({kWidth, 3 * kWidth});
  copy_columns(grouped["a/q/weight"], 0, all, 0, kWidth);
  for (int64_t part : {0, 1}) {
    for (int64_t head = 0; head < kHeads; ++head) {
      copy_columns(grouped["a/kv/weight"], (part * kKv + head / kGroup) * kD, all,
                   (part + 1) * kWidth + head * kD, kD);
    }
  }
  plain["a/qkv/weight"] = all;
  SelfAttention options{.heads = kHeads, .kv_heads = kKv, .rotary = true, .causal = true};
  Tensor few = attention_of(options, grouped);
  options.kv_heads = 0;
  Tensor many = attention_of(options, plain);
  for (int64_t i = 0; i < few.count(); ++i) ASSERT_NEAR(few[i], many[i], 1e-12) << i;
}

TEST(SelfAttention, HeadsThatDoNotDivideAreNamed) {
  for (auto [heads, kv_heads] : {std::pair{6, 4}, {6, -2}, {5, 0}, {0, 0}}) {
    Graph graph;
    Value x = graph.input("x", {{kBatch, kTime, kWidth}});
    EXPECT_THROW(self_attention("a", x, {.heads = heads, .kv_heads = kv_heads}), Error);
  }
}

double dot(const Tensor& x, int64_t t, const Tensor& y, int64_t s) {
  double sum = 0;
  for (int64_t c = 0; c < x.dim(2); ++c) sum += x[t * x.dim(2) + c] * y[s * y.dim(2) + c];
  return sum;
}

// The same query and the same key everywhere: their product is a function of the distance.
TEST(Rotary, ProductsDependOnDistancesAlone) {
  constexpr int64_t kLong = 40;
  Tensor q({1, kLong, kD}), k({1, kLong, kD});
  for (int64_t i = 0; i < q.count(); ++i) {
    q[i] = static_cast<double>(i % kD) - 1.3;
    k[i] = 0.7 * static_cast<double>(i % kD % 3) + 0.2;
  }
  Graph graph;
  Value turned_q = rotary(graph.input("q", {q.shape}));
  Value turned_k = rotary(graph.input("k", {k.shape}));
  ReferenceResult result = run_reference(graph, {{"q", q}, {"k", k}});
  const Tensor &a = result[turned_q], &b = result[turned_k];
  for (int64_t distance : {0, 1, 7}) {
    double first = dot(a, distance, b, 0);
    for (int64_t t = distance; t < kLong; ++t) EXPECT_NEAR(dot(a, t, b, t - distance), first, 1e-9);
  }
  EXPECT_GT(std::fabs(dot(a, 7, b, 0) - dot(a, 1, b, 0)), 0.1);
}

TEST(GatedFeedForward, IsTheFormula) {
  Graph graph;
  Value x = graph.input("x", {{3, 4}});
  Value y = gated_feed_forward("f", x, 6, 0.5);
  EXPECT_EQ(parameter_names(graph),
            (std::set<std::string>{"f/gate/weight", "f/up/weight", "f/down/weight"}));
  Bindings bindings{{"x", normal_tensor({3, 4}, "x", 1)},
                    {"f/gate/weight", normal_tensor({4, 6}, "gate", 1)},
                    {"f/up/weight", normal_tensor({4, 6}, "up", 1)},
                    {"f/down/weight", normal_tensor({6, 4}, "down", 1)}};
  ReferenceResult result = run_reference(graph, bindings);
  auto product = [&](const char* weight, int64_t row, int64_t column) {
    double sum = 0;
    for (int64_t m = 0; m < 4; ++m) {
      sum += bindings["x"][row * 4 + m] * bindings[weight][m * 6 + column];
    }
    return sum;
  };
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t column = 0; column < 4; ++column) {
      double sum = 0;
      for (int64_t h = 0; h < 6; ++h) {
        double gate = 0.5 * product("f/gate/weight", row, h);
        sum += gate / (1 + std::exp(-gate)) * product("f/up/weight", row, h) *
               bindings["f/down/weight"][h * 4 + column];
      }
      EXPECT_NEAR(result[y][row * 4 + column], sum, 1e-9);
    }
  }
}

}  // namespace
}  // namespace sigma1
