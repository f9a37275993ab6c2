#include "tests/theorem/random_graph.h"

#include "sigma1/base/rng.h"
#include "sigma1/graph/sources.h"
#include "sigma1/nn/residual.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {
namespace {

constexpr int64_t kRows = 5;
constexpr int64_t kWidths[] = {4, 6};

class Builder {
 public:
  Builder(Graph& graph, uint64_t seed) : graph_(graph), random_(seed, "random_graph") {}

  void build() {
    values_.push_back(graph_.input("x", {{kRows, kWidths[0]}}));
    int64_t steps = 3 + pick(8);
    for (int64_t i = 0; i < steps; ++i) values_.push_back(step());
    std::vector<Value> losses;
    int64_t count = 1 + pick(3);
    for (int64_t i = 0; i < count; ++i) losses.push_back(loss(i == 0 ? values_.back() : any()));
    Value total = losses.size() == 1 ? losses[0] : weighted_add(losses, weights(losses.size()));
    graph_.mark_output("loss", total);
  }

 private:
  int64_t pick(int64_t below) { return random_.bits(drawn_++) % below; }
  double number() { return 0.5 + random_.uniform(drawn_++); }
  Value any() { return values_[static_cast<size_t>(pick(std::ssize(values_)))]; }

  std::vector<double> weights(size_t count) {
    std::vector<double> result(count);
    for (double& weight : result) weight = number();
    return result;
  }

  // A parameter of this shape: a new one, or one that is shared.
  Value parameter(const Shape& shape) {
    for (Value existing : parameters_) {
      if (existing.shape() == shape && pick(3) == 0) return existing;
    }
    Init init{pick(2) == 0 ? "normal" : "uniform", 0.3};
    parameters_.push_back(graph_.parameter("w", shape, init));
    return parameters_.back();
  }

  Value activation(Value x) {
    switch (pick(5)) {
      case 0:
        return tanh(x);
      case 1:
        return gelu(x);
      case 2:
        return sigmoid(x);
      case 3:
        return silu(x);
      default:
        return softplus(x);
    }
  }

  // Always through a matrix and a bend: no path is a multiple of another.
  Value layer(Value x, int64_t width) {
    Value w = parameter({x.type().dim(-1), width});
    Value y = pick(2) == 0 ? matmul(x, w) : linear(x, w, parameter({width}));
    return activation(y);
  }

  Value same_width_as(Value x) {
    Value y = any();
    return layer(y, x.type().dim(-1));
  }

  Value step() {
    Value x = any();
    int64_t width = kWidths[pick(2)];
    switch (pick(9)) {
      case 0: {
        Value normal = layer_norm(x);
        return layer(normal, width);
      }
      case 1: {
        Value other = same_width_as(x);
        return add({x, other});
      }
      case 2: {
        Value other = same_width_as(x);
        return mul(x, other);
      }
      case 3: {
        Value one = same_width_as(x), other = same_width_as(x);
        return weighted_add({x, one, other}, weights(3));
      }
      case 4:
      case 5: {
        double tau = 0.1 + 0.8 * random_.uniform(drawn_++);
        return residual(x, fixed_residual(tau), [&](Value h) {
          Value hidden = layer(h, width);
          return layer(hidden, x.type().dim(-1));
        });
      }
      case 6: {
        Value other = same_width_as(x);
        Value joined = concat({x, other}, 1);
        return layer(joined, width);
      }
      case 7: {
        Value probabilities = softmax(x);
        return layer(probabilities, width);
      }
      default:
        return layer(x, width);
    }
  }

  Value loss(Value x) {
    Value y = layer(x, kWidths[1]);
    if (pick(2) == 0) {
      Value targets = graph_.input("targets", {{kRows}, Kind::index});
      return softmax_xent(y, targets);
    }
    Value target = graph_.input("target", {{kRows, kWidths[1]}}, false);
    return mse(y, target);
  }

  Graph& graph_;
  RandomStream random_;
  uint64_t drawn_ = 0;
  std::vector<Value> values_, parameters_;
};

}  // namespace

void build_random_model(Graph& graph, uint64_t seed) { Builder(graph, seed).build(); }

Bindings random_bindings(const Graph& graph, uint64_t seed) {
  Bindings bindings;
  for (const Node& node : graph.nodes()) {
    if (!is_source(*node.op) || node.op == &constant_op) continue;
    const TensorType& type = node.outputs.front();
    bindings[node.name] = type.kind == Kind::index
                              ? index_tensor(type.shape, kWidths[1], node.name, seed)
                              : normal_tensor(type.shape, node.name, seed);
  }
  return bindings;
}

}  // namespace sigma1
