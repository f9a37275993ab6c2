// Builds the Transformer's feed-forward layer in plain ops, unit-scales it, and prints the scale of
// every tensor, forward and backward, before and after. Expect every number in the last two columns
// to be near 1.
#include <fmt/format.h>

#include "sigma1/backend/reference.h"
#include "sigma1/backend/simulate.h"
#include "sigma1/nn/layers.h"
#include "sigma1/nn/residual.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/unit_scaling.h"

using namespace sigma1;

namespace {

constexpr int64_t kRows = 256, kWidth = 128, kHidden = 512;

// A model is a function on plain ops. It does not know about scaling.
Value build(Graph& graph) {
  Value x = graph.input("x", {{kRows, kWidth}});
  Value y = residual(x, fixed_residual(0.5), [](Value h) {
    Value normal = normalise("norm", h);
    return feed_forward("ffn", normal, kHidden);
  });
  graph.mark_output("y", y);
  return y;
}

// A loss whose gradient at y is unit normal, as the layers above would send it.
Value add_loss(Graph& graph, Value y) {
  Value dy = graph.input("dy", {y.shape()}, false);
  Value product = mul(y, dy);
  Value loss = sum(product, {0, 1});
  graph.mark_output("loss", loss);
  return loss;
}

struct TensorScale {
  std::string name;
  double forward = 0, backward = 0;
};

std::vector<TensorScale> measure(bool unit_scaled) {
  Graph graph;
  Value y = build(graph);
  if (unit_scaled) unit_scale(graph);
  int model_size = graph.size();
  Value loss = add_loss(graph, y);
  Gradients gradients = differentiate(graph, loss);
  Bindings bindings = initial_parameters(graph, 1);
  bindings["x"] = normal_tensor({kRows, kWidth}, "x", 1);
  bindings["dy"] = normal_tensor({kRows, kWidth}, "dy", 1);
  ReferenceResult result = run_reference(graph, bindings);

  std::vector<TensorScale> scales;
  for (int i = 0; i < model_size; ++i) {
    Value value{&graph, i, 0}, gradient = gradients.of(value);
    double backward = gradient ? scale_of({&result[gradient]}, Criterion::std_dev) : 0;
    scales.push_back(
        {graph.node(i).name, scale_of({&result[value]}, Criterion::std_dev), backward});
  }
  return scales;
}

}  // namespace

int main() {
  std::vector<TensorScale> plain = measure(false), unit = measure(true);
  fmt::print("{:20} {:>10} {:>10} {:>10} {:>10}\n", "", "plain", "gradient", "unit", "gradient");
  for (size_t i = 0; i < plain.size(); ++i) {
    fmt::print("{:20} {:10.4g} {:10.4g} {:10.4g} {:10.4g}\n", plain[i].name, plain[i].forward,
               plain[i].backward, unit[i].forward, unit[i].backward);
  }
}
