#include "sigma1/ops/pointwise.h"

#include <cmath>

#include "sigma1/base/rng.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Formula = std::function<double(double)>;

std::vector<Tensor> map(const Tensor& x, const Formula& f) {
  Tensor y(x.shape);
  for (int64_t i = 0; i < x.count(); ++i) y[i] = f(x[i]);
  return {y};
}

ConformanceCase activation_case(const OpDef& op, Formula f) {
  return {"formula",
          &op,
          {{{2, 3, 5}}},
          {},
          [=](const std::vector<Tensor>& in) { return map(in[0], f); },
          {{{1000, 1000}}},
          {}};
}

// The derivative by central differences of the formula.
ConformanceCase activation_grad_case(const OpDef& op, Formula f) {
  auto expected = [=](const std::vector<Tensor>& in) {
    constexpr double h = 1e-5;
    Tensor y(in[0].shape);
    for (int64_t i = 0; i < y.count(); ++i) {
      y[i] = (f(in[0][i] + h) - f(in[0][i] - h)) / (2 * h) * in[1][i];
    }
    return std::vector<Tensor>{y};
  };
  return {"derivative", &op, {{{2, 3, 5}}, {{2, 3, 5}}}, {}, expected, {}, {}};
}

ConformanceCase with_multiplier(ConformanceCase c, double multiplier) {
  c.label += " of a multiple";
  c.attributes.set("multiplier", multiplier);
  if (!c.large_inputs.empty()) c.large_attributes.set("multiplier", multiplier);
  return c;
}

Tensor mul_expected(const Tensor& x, const Tensor& y) {
  Tensor result(x.shape);
  for (int64_t i = 0; i < x.count(); ++i) result[i] = x[i] * y[i % y.count()];
  return result;
}

ConformanceCase mul_case(std::string label, Shape y, Shape large_y) {
  return {
      std::move(label),
      &mul_op,
      {{{2, 3, 5}}, {y}},
      {},
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{mul_expected(in[0], in[1])}; },
      {{{100, 10000}}, {large_y}},
      {}};
}

ConformanceCase dropout_case() {
  Attributes attributes{{"p", 0.3}, {"stream", std::string("drop")}, {"seed", int64_t{4}}};
  auto expected = [](const std::vector<Tensor>& in) {
    Tensor y(in[0].shape);
    RandomStream random(4, "drop", 0);
    for (int64_t i = 0; i < y.count(); ++i) {
      y[i] = random.uniform(static_cast<uint64_t>(i)) < 0.3 ? 0 : in[0][i] / 0.7;
    }
    return std::vector<Tensor>{y};
  };
  return {"mask", &dropout_op, {{{2, 3, 5}}}, attributes, expected, {{{1000, 1000}}}, attributes};
}

}  // namespace

std::vector<ConformanceCase> pointwise_cases() {
  struct Activation {
    const OpDef &op, &grad_op;
    Formula formula;
  };
  const Activation activations[] = {
      {relu_op, relu_grad_op, [](double x) { return (x + std::fabs(x)) / 2; }},
      {gelu_op, gelu_grad_op, [](double x) { return x * (1 + std::erf(x / std::sqrt(2))) / 2; }},
      {gelu_tanh_op, gelu_tanh_grad_op,
       [](double x) {
         return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3))));
       }},
      {tanh_op, tanh_grad_op, [](double x) { return 1 - 2 / (std::exp(2 * x) + 1); }},
      {sigmoid_op, sigmoid_grad_op, [](double x) { return (1 + std::tanh(x / 2)) / 2; }},
      {silu_op, silu_grad_op, [](double x) { return x * (1 + std::tanh(x / 2)) / 2; }},
      {softplus_op, softplus_grad_op, [](double x) { return std::log(1 + std::exp(x)); }},
      {exp_op, exp_grad_op, [](double x) { return std::pow(M_E, x); }},
      {log_op, log_grad_op, [](double x) { return std::log2(x) * std::log(2.0); }},
  };
  std::vector<ConformanceCase> cases;
  for (const auto& [op, grad_op, formula] : activations) {
    cases.push_back(activation_case(op, formula));
    cases.push_back(activation_grad_case(grad_op, formula));
  }
  auto inner = [](double x) { return 1.7 * x * (1 + std::erf(1.7 * x / std::sqrt(2))) / 2; };
  cases.push_back(with_multiplier(activation_case(gelu_op, inner), 1.7));
  cases.push_back(with_multiplier(activation_grad_case(gelu_grad_op, inner), 1.7));
  cases.push_back(mul_case("same", {2, 3, 5}, {100, 10000}));
  cases.push_back(mul_case("shorter", {5}, {10000}));
  cases.push_back(activation_case(identity_op, [](double x) { return x; }));
  ConformanceCase scaled = activation_case(scale_op, [](double x) { return -2.5 * x; });
  scaled.attributes = scaled.large_attributes = {{"factor", -2.5}};
  cases.push_back(scaled);
  cases.push_back(dropout_case());
  return cases;
}

}  // namespace sigma1
