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
  const int64_t pairs = components / 2;
  auto last_pair = static_cast<double>(pairs - 1);
  double ratio = 2 / v.attr<double>("longest");
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t j = 0; j < components; ++j) {
      const int64_t pair = j / 2;
      double frequency = std::numbers::pi * std::pow(ratio, static_cast<double>(pair) / last_pair);
      double phase = j % 2 == 0 ? 0 : std::numbers::pi / 2;
      v.out()[t * components + j] = std::sin(static_cast<double>(t) * frequency + phase);
    }
  }
}

std::vector<TensorType> infer_rotary(const OpView& v) {
  const TensorType& x = v.in(0);
  if (x.rank() != 3) {
    throw Error("input 0: expected [batch, time, heads·d], got {}", to_string(x.shape));
  }
  auto heads = v.attr<int64_t>("heads");
  if (heads < 1 || x.dim(2) % (2 * heads) != 0) {
    throw Error("heads: expected a divisor of the width {} that leaves pairs, got {}", x.dim(2),
                heads);
  }
  double base = v.attr<double>("base");
  if (!(base > 0) || !std::isfinite(base)) {
    throw Error("base: expected a positive number, got {}", base);
  }
  return {x};
}

// A rotation keeps lengths, and so does its inverse.
Scales scale_rotary(const OpView&, const ScaleContext&) { return {1, {1}}; }

Grads grad_rotary(GradView& g) {
  Value dy = g.dy();
  return {rotary(dy, {.heads = g.attr<int64_t>("heads"),
                      .base = g.attr<double>("base"),
                      .inverse = !g.attr<bool>("inverse")})};
}

void evaluate_rotary(const EvalView& v) {
  const Tensor& x = v.in(0);
  int64_t time = x.dim(1), d = x.dim(2) / v.attr<int64_t>("heads"), half = d / 2;
  double base = v.attr<double>("base"), sign = v.attr<bool>("inverse") ? -1 : 1;
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t t = i / x.dim(2) % time, j = i % d % half;
    double power = -2 * static_cast<double>(j) / static_cast<double>(d);
    double angle = static_cast<double>(t) * std::pow(base, power);
    bool first = i % d < half;
    double other = first ? -x[i + half] : x[i - half];
    v.out()[i] = x[i] * std::cos(angle) + sign * other * std::sin(angle);
  }
}

Attributes rotary_attributes(const RotaryOptions& options) {
  return {{"heads", options.heads}, {"base", options.base}, {"inverse", options.inverse}};
}

Attributes rotary_defaults(std::span<const TensorType>) { return rotary_attributes({}); }

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

constinit const OpDef rotary_op{.name = "rotary",
                                .formula = "pairs turned by t base^(−2j/d); α=1, β=1",
                                .infer = infer_rotary,
                                .scale = scale_rotary,
                                .grad = grad_rotary,
                                .evaluate = evaluate_rotary,
                                .defaults = rotary_defaults,
                                .linear_in = first_input};

Value sinusoids(Graph& graph, int64_t length, int64_t components, double longest) {
  return graph.append_one(sinusoids_op, {}, sinusoid_attributes(length, components, longest));
}

Value rotary(Value x, const RotaryOptions& options) {
  return x.graph->append_one(rotary_op, {x}, rotary_attributes(options));
}

}  // namespace sigma1
