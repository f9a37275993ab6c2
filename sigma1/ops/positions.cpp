#include "sigma1/ops/positions.h"

#include <cmath>
#include <numbers>

#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

std::vector<TensorType> infer_sinusoids(const OpView& v) {
  int64_t length = v.attr<int64_t>("length"), components = v.attr<int64_t>("components");
  if (length < 1 || components < 4 || components % 2 != 0) {
    throw Error("expected a positive length and an even number of components from 4, got {} and {}",
                length, components);
  }
  return {{{length, components}}};
}

// The mean square of a sine is ½.
Scales scale_sinusoids(const OpView&, const ScaleContext&) { return {std::numbers::sqrt2, {}}; }

Grads grad_sinusoids(GradView&) { return {}; }

void evaluate_sinusoids(const EvalView& v) {
  int64_t length = v.attr<int64_t>("length"), components = v.attr<int64_t>("components");
  double last_pair = static_cast<double>(components / 2 - 1);
  double ratio = 2 / v.attr<double>("longest");
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t j = 0; j < components; ++j) {
      double frequency = std::numbers::pi * std::pow(ratio, static_cast<double>(j / 2) / last_pair);
      double phase = j % 2 == 0 ? 0 : std::numbers::pi / 2;
      v.out()[t * components + j] = std::sin(static_cast<double>(t) * frequency + phase);
    }
  }
}

Attributes sinusoid_attributes(int64_t length, int64_t components, double longest) {
  return {{"length", length}, {"components", components}, {"longest", longest}};
}

// The paper's: 128 bases for sequences of 256.
Attributes sinusoid_defaults(std::span<const TensorType>) {
  return sinusoid_attributes(256, 128, 1024);
}

}  // namespace

constinit const OpDef sinusoids_op{.name = "sinusoids",
                                   .formula = "sin(t f_j + φ_j) of positions t; α=√2",
                                   .min_inputs = 0,
                                   .max_inputs = 0,
                                   .infer = infer_sinusoids,
                                   .scale = scale_sinusoids,
                                   .grad = grad_sinusoids,
                                   .evaluate = evaluate_sinusoids,
                                   .defaults = sinusoid_defaults};

Value sinusoids(Graph& graph, int64_t length, int64_t components, double longest) {
  return graph.append_one(sinusoids_op, {}, sinusoid_attributes(length, components, longest));
}

}  // namespace sigma1
