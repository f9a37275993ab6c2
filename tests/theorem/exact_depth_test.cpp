// What exact scaling promises beyond valid gradients: unit scale at any depth, forward and
// backward, where means on non-cut edges drift. Shown on stacks of residual blocks up to 64 deep.
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "sigma1/backend/reference.h"
#include "sigma1/base/rng.h"
#include "sigma1/graph/sources.h"
#include "sigma1/nn/residual.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/unit_scaling.h"

namespace sigma1 {
namespace {

// A rule holds on average, as width grows. Through 64 blocks the rms of one network of width n
// walks off by some 2/√n forward, and a norm's 1/σ adds a bias of a few 1/n backward: hence these
// sizes, and coins.
constexpr int64_t kRows = 32, kWidth = 256;
constexpr uint64_t kDraws = 2;
constexpr double kTolerance = 0.05;

struct Stack {
  bool pre_norm;
  double tau;  // of a fixed residual; 0 for the running mean
  int64_t depth;
};

// Weights carry no gradient here: only activations are measured.
//
// relu's mean makes rows alike, and then more rows are no better a sample than one. So each row
// turns the signs of its hidden units by coins of its own, which changes no scale.
Value block(Value x, const Stack& stack, int64_t l) {
  Graph& graph = *x.graph;
  Graph::Path path(graph, fmt::format("block{}", l));
  Value up = graph.input("up", {{kWidth, kWidth}}, false);
  Value down = graph.input("down", {{kWidth, kWidth}}, false);
  Value coins = graph.input("coins", {{kRows, kWidth}}, false);
  ResidualWeights weights = stack.tau > 0 ? fixed_residual(stack.tau) : running_mean_residual(l);
  return residual(x, weights, [&](Value h) {
    if (stack.pre_norm) h = layer_norm(h);
    Value hidden = matmul(h, up);
    Value bent = relu(hidden);
    Value turned = mul(bent, coins);
    return matmul(turned, down);
  });
}

// The loss is Σ y·r, whose factors stay 1: the gradient of y is r, unit normal.
std::vector<Value> build(Graph& graph, const Stack& stack) {
  Value y = graph.input("x", {{kRows, kWidth}});
  std::vector<Value> activations{y};
  for (int64_t l = 1; l <= stack.depth; ++l) y = block(y, stack, l);
  for (int i = 0; i < graph.size(); ++i) {
    if (!is_source(*graph.node(i).op)) activations.push_back({&graph, i, 0});
  }
  Value r = graph.input("r", {{kRows, kWidth}}, false);
  Value product = mul(y, r);
  Value loss = sum(product, {0, 1});
  graph.node(product.node).pinned = graph.node(loss.node).pinned = true;
  graph.mark_output("loss", loss);
  return activations;
}

// Coins of −1 and 1, and else uniform numbers, all of unit variance; cheaper than normal ones.
Tensor sample(const Node& input, uint64_t seed) {
  Tensor tensor(input.outputs.front().shape);
  RandomStream random(seed, input.name);
  bool is_coin = input.name.ends_with("coins");
  for (int64_t i = 0; i < tensor.count(); ++i) {
    double centred = random.uniform(static_cast<uint64_t>(i)) - 0.5;
    tensor[i] = is_coin ? std::copysign(1.0, centred) : std::sqrt(12.0) * centred;
  }
  return tensor;
}

Bindings sample_inputs(const Graph& graph, uint64_t seed) {
  Bindings bindings;
  for (const Node& node : graph.nodes()) {
    if (node.op != &input_op) continue;
    bool is_end = node.name == "x" || node.name == "r";
    bindings[node.name] =
        is_end ? normal_tensor(node.outputs.front().shape, node.name, seed) : sample(node, seed);
  }
  return bindings;
}

double mean_square(const Tensor& tensor) {
  double sum = 0;
  for (double x : tensor.data) sum += x * x;
  return sum / static_cast<double>(tensor.count());
}

struct Scale {
  std::string name;
  double forward = 0, backward = 0;  // rms over all draws
};

// Both schemes are run on the same numbers, drawn once.
std::vector<Bindings> sample_draws(const Stack& stack) {
  Graph graph;
  build(graph, stack);
  std::vector<Bindings> draws;
  for (uint64_t seed = 1; seed <= kDraws; ++seed) draws.push_back(sample_inputs(graph, seed));
  return draws;
}

std::vector<Scale> measure(const Stack& stack, Scheme scheme, std::span<const Bindings> draws) {
  Graph graph;
  std::vector<Value> activations = build(graph, stack);
  unit_scale(graph, ScalingOptions::of(scheme));
  Gradients gradients = differentiate(graph, graph.output("loss"));
  std::vector<Scale> scales(activations.size());
  for (const Bindings& bindings : draws) {
    ReferenceResult result = run_reference(graph, bindings);
    for (size_t i = 0; i < scales.size(); ++i) {
      scales[i].forward += mean_square(result[activations[i]]);
      scales[i].backward += mean_square(result[gradients.of(activations[i])]);
    }
  }
  auto count = static_cast<double>(draws.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = {graph.node(activations[i].node).name, std::sqrt(scales[i].forward / count),
                 std::sqrt(scales[i].backward / count)};
  }
  return scales;
}

// How far the worst activation is from 1, for people: no scheme is judged by it.
std::string worst(const std::vector<Scale>& scales) {
  double forward = 1, backward = 1;
  for (const Scale& scale : scales) {
    if (std::fabs(std::log(scale.forward)) > std::fabs(std::log(forward))) forward = scale.forward;
    if (std::fabs(std::log(scale.backward)) > std::fabs(std::log(backward))) {
      backward = scale.backward;
    }
  }
  return fmt::format("{:.3f} forward, {:.3f} backward", forward, backward);
}

void expect_unit_scale(bool pre_norm, double tau) {
  std::cout << "seeds 1 to " << kDraws << "\n";
  for (int64_t depth : {1, 8, 64}) {
    SCOPED_TRACE(testing::Message() << "depth " << depth);
    Stack stack{pre_norm, tau, depth};
    std::vector<Bindings> draws = sample_draws(stack);
    std::vector<Scale> scales = measure(stack, Scheme::exact, draws);
    for (const Scale& scale : scales) {
      EXPECT_NEAR(scale.forward, 1, kTolerance) << scale.name << " forward";
      EXPECT_NEAR(scale.backward, 1, kTolerance) << scale.name << " backward";
    }
    testing::Test::RecordProperty(fmt::format("exact_{}", depth), worst(scales));
    std::string paper = worst(measure(stack, Scheme::paper, {draws.data(), 1}));
    testing::Test::RecordProperty(fmt::format("paper_{}", depth), paper);
    std::cout << "depth " << depth << ": exact " << worst(scales) << "; paper " << paper << "\n";
  }
}

TEST(ExactDepth, RunningMean) { expect_unit_scale(false, 0); }
TEST(ExactDepth, RunningMeanBeforeANorm) { expect_unit_scale(true, 0); }
TEST(ExactDepth, FixedTau) { expect_unit_scale(false, 0.05); }
TEST(ExactDepth, FixedTauBeforeANorm) { expect_unit_scale(true, 0.05); }

}  // namespace
}  // namespace sigma1
