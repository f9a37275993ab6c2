// The proposition of Section 4 (derived in Appendix E.2): a scaled op trains as an unscaled one
// does that starts elsewhere. Here both train, step by step, and the unscaled one has no factors at
// all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sigma1/analysis/gradient_edges.h"
#include "sigma1/analysis/potentials.h"
#include "sigma1/backend/reference.h"
#include "sigma1/base/rng.h"
#include "sigma1/graph/sources.h"
#include "sigma1/nn/residual.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/ops/update.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/unit_scaling.h"
#include "tests/theorem/gradient_spread.h"

namespace sigma1 {
namespace {

constexpr uint64_t kSeed = 2024;
constexpr int kSteps = 50;
constexpr double kSame = 1e-9;       // of a tensor's largest number
constexpr double kDifferent = 1e-3;  // what a wrong equivalent exceeds

// A regression with cut edges and a cycle.
void build_regression(Graph& graph) {
  Value x = graph.input("x", {{12, 4}}, false);
  Value target = graph.input("target", {{12, 2}}, false);
  Value w1 = graph.parameter("w1", {4, 5}, {}), c1 = graph.parameter("c1", {5}, {});
  Value w2 = graph.parameter("w2", {5, 5}, {}), w3 = graph.parameter("w3", {5, 2}, {});
  Value hidden = tanh(linear(x, w1, c1));
  Value deeper =
      residual(hidden, fixed_residual(0.3), [&](Value h) { return tanh(matmul(h, w2)); });
  Value y = matmul(deeper, w3);
  graph.mark_output("loss", mse(y, target));
}

// s of each node: its gradient is s times the true gradient of the scaled forward.
using Potentials = std::vector<double>;

// Any α, and any s: β = α s_u / s_v follows.
Potentials set_arbitrary_factors(Graph& graph) {
  RandomStream random(kSeed, "factors");
  auto between = [&](uint64_t i) { return 0.5 + random.uniform(i); };
  Potentials s;
  for (int i = 0; i < graph.size(); ++i) s.push_back(between(2 * static_cast<uint64_t>(i)));
  for (int i = 0; i < graph.size(); ++i) {
    Node& node = graph.node(i);
    if (!is_source(*node.op)) node.alpha = between(2 * static_cast<uint64_t>(i) + 1);
  }
  const GradientEdges edges(graph);
  for (const Edge& edge : edges.edges()) {
    Node& consumer = graph.node(edge.to);
    consumer.beta[static_cast<size_t>(edge.input)] =
        consumer.alpha * s[static_cast<size_t>(edge.from)] / s[static_cast<size_t>(edge.to)];
  }
  return s;
}

// θ* = rate · θ, by parameter: √(β/α), where β/α is what the whole graph's gradient is off by.
using Rates = std::map<std::string, double>;

Rates rates_of(const Graph& graph, const Potentials& s) {
  Rates rates;
  double of_loss = s[static_cast<size_t>(graph.output("loss").node)];
  for (Value parameter : graph.parameters()) {
    rates[graph.node(parameter.node).name] =
        std::sqrt(s[static_cast<size_t>(parameter.node)] / of_loss);
  }
  return rates;
}

Rates no_rates(const Graph& graph) {
  return rates_of(graph, Potentials(static_cast<size_t>(graph.size()), 1.0));
}

// f̂(θ) = f*(rate · θ): every α and rate becomes a plain multiplication, every factor is 1.
void build_unscaled(const Graph& scaled, const Rates& rates, Graph& plain) {
  std::vector<Value> values;
  for (const Node& node : scaled.nodes()) {
    std::vector<Value> inputs;
    for (Value input : node.inputs) inputs.push_back(values[static_cast<size_t>(input.node)]);
    Value value = plain.append(*node.op, inputs, node.attributes, node.name).front();
    auto rate = rates.find(node.name);
    values.push_back(scale(value, rate == rates.end() ? node.alpha : rate->second));
  }
  plain.mark_output("loss", values[static_cast<size_t>(scaled.output("loss").node)]);
}

struct Optimiser {
  double lr = 0, momentum = 0;
  bool is_adam = false;
  double epsilon = 0;
};

Shape shape_of(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes()) {
    if (node.name == name) return node.outputs.front().shape;
  }
  throw Bug("no node {}", name);
}

// A graph that holds a whole training step, and the values that go around in it.
class Training {
 public:
  // Starts at θ*/rate.
  Training(const Graph& model, const Rates& rates, const Optimiser& optimiser) {
    copy_graph(model, graph_);
    bindings_["lr"] = Tensor({}, {optimiser.lr});
    for (const char* name : {"x", "target"}) {
      bindings_[name] = normal_tensor(shape_of(model, name), name, kSeed);
    }
    for (const auto& [name, rate] : rates) {
      bindings_[name] = normal_tensor(shape_of(model, name), name, kSeed);
      for (double& x : bindings_[name].data) x /= rate;
    }
    append_updates(optimiser);
  }

  // Gives the loss before the step.
  double step() {
    bindings_["step"] = Tensor({}, {static_cast<double>(++steps_)});
    ReferenceResult result = run_reference(graph_, bindings_);
    for (auto [before, after] : next_) bindings_[graph_.node(before.node).name] = result[after];
    return result[graph_.output("loss")][0];
  }

  const Tensor& parameter(const std::string& name) const { return bindings_.at(name); }

 private:
  void append_updates(const Optimiser& optimiser) {
    Gradients gradients = differentiate(graph_, graph_.output("loss"));
    Value lr = graph_.input("lr", {Shape{}}, false), count = graph_.input("step", {Shape{}}, false);
    for (Value parameter : graph_.parameters()) {
      Value gradient = gradients.of(parameter), m = state(parameter, "m");
      if (optimiser.is_adam) {
        Value v = state(parameter, "v");
        AdamStep next =
            adam_step(parameter, gradient, m, v, lr, count, {.epsilon = optimiser.epsilon});
        next_.insert(next_.end(), {{parameter, next.param}, {m, next.m}, {v, next.v}});
      } else {
        SgdStep next = sgd_step(parameter, gradient, m, lr, {.momentum = optimiser.momentum});
        next_.insert(next_.end(), {{parameter, next.param}, {m, next.momentum}});
      }
    }
  }

  // What the optimiser remembers of a parameter; zero at first.
  Value state(Value parameter, const std::string& suffix) {
    std::string name = graph_.node(parameter.node).name + "/" + suffix;
    const Shape shape = parameter.shape();
    bindings_[name] = Tensor(shape);
    return graph_.input(name, {shape}, false);
  }

  Graph graph_;
  Bindings bindings_;
  std::vector<std::pair<Value, Value>> next_;
  int steps_ = 0;
};

// The largest distance between θ* and rate · θ, relative to the largest |θ*|.
double distance(const Training& scaled, const Training& unscaled, const Rates& rates) {
  double worst = 0;
  for (const auto& [name, rate] : rates) {
    const Tensor &ours = scaled.parameter(name), &theirs = unscaled.parameter(name);
    double largest = 0, apart = 0;
    for (int64_t i = 0; i < ours.count(); ++i) {
      largest = std::max(largest, std::fabs(ours[i]));
      apart = std::max(apart, std::fabs(ours[i] - rate * theirs[i]));
    }
    worst = std::max(worst, apart / largest);
  }
  return worst;
}

// Trains both, and gives the worst distance of any step, of parameters or of the loss.
double train_both(const Graph& graph, const Rates& rates, const Optimiser& optimiser) {
  Graph plain;
  build_unscaled(graph, rates, plain);
  Training scaled(graph, no_rates(graph), optimiser), unscaled(plain, rates, optimiser);
  double worst = 0, first = 0, last = 0;
  for (int i = 0; i < kSteps; ++i) {
    last = scaled.step();
    if (i == 0) first = last;
    double apart = std::fabs(unscaled.step() / last - 1);
    worst = std::max({worst, apart, distance(scaled, unscaled, rates)});
  }
  EXPECT_LT(last, 0.8 * first) << "nothing was learnt, so nothing was compared";
  return worst;
}

// A scaled model and its potentials, from factors of three kinds.
template <class Body>
void for_each_scaling(Body body) {
  std::cout << "seed " << kSeed << "\n";
  for (const char* scaling : {"arbitrary", "paper", "exact"}) {
    SCOPED_TRACE(scaling);
    Graph graph;
    build_regression(graph);
    if (scaling == std::string("arbitrary")) {
      body(graph, set_arbitrary_factors(graph));
    } else {
      unit_scale(graph, ScalingOptions::of(parse_scheme(scaling)));
      body(graph, solve_potentials(graph));
    }
  }
}

TEST(Dynamics, SgdFollowsAnUnscaledOpThatStartsElsewhere) {
  for (double momentum : {0.0, 0.9}) {
    Optimiser sgd{.lr = momentum > 0 ? 0.001 : 0.01, .momentum = momentum};
    for_each_scaling([&](const Graph& graph, const Potentials& s) {
      EXPECT_LT(train_both(graph, rates_of(graph, s), sgd), kSame);
      EXPECT_GT(train_both(graph, no_rates(graph), sgd), kDifferent)
          << "the rates make no difference";
    });
  }
}

TEST(Dynamics, AdamWithoutEpsilonFollowsTheUnscaledOpFromTheSameStart) {
  for_each_scaling([&](const Graph& graph, const Potentials&) {
    EXPECT_LT(train_both(graph, no_rates(graph), {.lr = 0.02, .is_adam = true}), kSame);
    Optimiser with_epsilon{.lr = 0.02, .is_adam = true, .epsilon = 0.1};
    EXPECT_GT(train_both(graph, no_rates(graph), with_epsilon), kDifferent)
        << "an epsilon makes no difference";
  });
}

}  // namespace
}  // namespace sigma1
