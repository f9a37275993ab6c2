// The recurrent highway layer, checked against a recursion over single elements. Its gradient is
// taken from that recursion by the complex step f'(x) = Im f(x + iε) / ε, which is exact to
// rounding.
#include <cmath>
#include <complex>

#include "sigma1/ops/recurrent.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Complex = std::complex<double>;
using ComplexTensors = std::vector<std::vector<Complex>>;

struct Sizes {
  int64_t batch, time, n_in, h;

  std::vector<TensorType> inputs() const {
    return {{{batch, time, n_in}}, {{n_in + h, 2, h}}, {{2, h}}, {{h}}};
  }
  std::vector<TensorType> grad_inputs() const {
    std::vector<TensorType> types = inputs();
    types.push_back({{batch, time, h}});
    return types;
  }
};

std::vector<Complex> states(const Sizes& sizes, double weight_scale, const ComplexTensors& in) {
  const int64_t time = sizes.time, n_in = sizes.n_in, h = sizes.h;
  std::vector<Complex> result(static_cast<size_t>(sizes.batch * time * h));
  auto at = [](auto& values, int64_t i) -> auto& { return values[static_cast<size_t>(i)]; };
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t t = 0; t < time; ++t) {
      auto before = [&](int64_t j) {
        return t == 0 ? at(in[3], j) : at(result, (b * time + t - 1) * h + j);
      };
      auto preactivation = [&](int64_t gate, int64_t j) {
        Complex sum = 0;
        for (int64_t k = 0; k < n_in; ++k) {
          sum += at(in[0], (b * time + t) * n_in + k) * at(in[1], (k * 2 + gate) * h + j);
        }
        for (int64_t k = 0; k < h; ++k) {
          sum += before(k) * at(in[1], ((n_in + k) * 2 + gate) * h + j);
        }
        return weight_scale * sum + at(in[2], gate * h + j);
      };
      for (int64_t j = 0; j < h; ++j) {
        // σ(z) = (1 + tanh(z/2)) / 2
        Complex u = (1.0 + std::tanh((preactivation(0, j) - 1.0) / 2.0)) / 2.0;
        Complex c = std::tanh(preactivation(1, j));
        at(result, (b * time + t) * h + j) = before(j) + u * (c - before(j));
      }
    }
  }
  return result;
}

ComplexTensors as_complex(const std::vector<Tensor>& in) {
  ComplexTensors result;
  for (const Tensor& each : in) result.emplace_back(each.data.begin(), each.data.end());
  return result;
}

std::vector<Tensor> expected_states(const Sizes& sizes, double weight_scale,
                                    const std::vector<Tensor>& in) {
  Tensor result({sizes.batch, sizes.time, sizes.h});
  std::vector<Complex> values = states(sizes, weight_scale, as_complex(in));
  for (size_t i = 0; i < values.size(); ++i) result.data[i] = values[i].real();
  return {result};
}

std::vector<Tensor> expected_gradients(const Sizes& sizes, double weight_scale,
                                       const std::vector<Tensor>& in) {
  constexpr double kStep = 1e-100;
  ComplexTensors perturbed = as_complex(in);
  std::vector<Tensor> gradients;
  for (size_t input = 0; input < 4; ++input) {
    Tensor gradient(in[input].shape);
    for (size_t i = 0; i < gradient.data.size(); ++i) {
      perturbed[input][i] += Complex(0, kStep);
      std::vector<Complex> values = states(sizes, weight_scale, perturbed);
      perturbed[input][i] = in[input].data[i];
      for (size_t k = 0; k < values.size(); ++k) {
        gradient.data[i] += in[4].data[k] * values[k].imag() / kStep;
      }
    }
    gradients.push_back(gradient);
  }
  return gradients;
}

ConformanceCase forward_case(const std::string& label, double weight_scale, const Sizes& large) {
  const Sizes small{3, 4, 6, 5};
  double unit_weight_scale = 1 / std::sqrt(static_cast<double>(large.n_in + large.h));
  return {label,
          &recurrent_highway_op,
          small.inputs(),
          {{"weight_scale", weight_scale}},
          [=](const std::vector<Tensor>& in) { return expected_states(small, weight_scale, in); },
          large.inputs(),
          {{"weight_scale", unit_weight_scale}},
          // The gradients of bias and initial state have few elements: sampling, not the rule,
          // needs this.
          0.1};
}

ConformanceCase gradient_case(const std::string& label, double weight_scale) {
  const Sizes small{3, 4, 6, 5};
  return {
      label,
      &recurrent_highway_grad_op,
      small.grad_inputs(),
      {{"weight_scale", weight_scale}},
      [=](const std::vector<Tensor>& in) { return expected_gradients(small, weight_scale, in); },
      {},
      {}};
}

}  // namespace

std::vector<ConformanceCase> recurrent_cases() {
  return {forward_case("scaled weights", 0.3, {2, 5, 360, 448}),
          forward_case("plain weights", 1, {1, 16, 160, 400}), gradient_case("scaled weights", 0.3),
          gradient_case("plain weights", 1)};
}

}  // namespace sigma1
