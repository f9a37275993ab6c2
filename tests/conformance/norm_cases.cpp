#include "sigma1/ops/norm.h"

#include <cmath>

#include "tests/conformance/at.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Tensors = std::vector<Tensor>;

constexpr double kEps = 0.01;  // large enough to be seen

struct Moments {
  double mean, scale;
};

// Of the row of x[i], the variance as Table A.2 writes it: E[x²] − μ².
Moments moments(const Tensor& x, int64_t i, bool centred) {
  int64_t n = x.dim(-1), row = i / n * n;
  double sum = 0, squares = 0;
  for (int64_t j = row; j < row + n; ++j) {
    sum += x[j];
    squares += x[j] * x[j];
  }
  auto count = static_cast<double>(n);
  double mean = centred ? sum / count : 0;
  return {mean, std::sqrt(squares / count - mean * mean + kEps)};
}

Tensors normalised(const Tensors& in, bool centred) {
  Tensor y(in[0].shape);
  for (int64_t i = 0; i < y.count(); ++i) {
    auto [mean, scale] = moments(in[0], i, centred);
    int64_t column = i % y.dim(-1);
    double gain = in.size() > 1 ? in[1][column] : 1, bias = in.size() > 2 ? in[2][column] : 0;
    y[i] = bias + gain * (in[0][i] - mean) / scale;
  }
  return {y};
}

// The Jacobian by its elements: ∂x̂ⱼ/∂xᵢ = (δᵢⱼ − 1/n − x̂ᵢ·x̂ⱼ/n) / σ, without 1/n when not centred.
// in: x, perhaps w, dy
Tensors normalised_grad(const Tensors& in, bool centred) {
  Tensor xhat = normalised({in[0]}, centred).front(), dx(in[0].shape);
  int64_t n = dx.dim(-1);
  auto count = static_cast<double>(n);
  for (int64_t i = 0; i < dx.count(); ++i) {
    double scale = moments(in[0], i, centred).scale;
    for (int64_t j = i / n * n; j < i / n * n + n; ++j) {
      double same = i == j ? 1 : 0, shared = (centred ? 1 : 0) + xhat[i] * xhat[j];
      double gain = in.size() > 2 ? in[1][j % n] : 1;
      dx[i] += in.back()[j] * gain * (same - shared / count) / scale;
    }
  }
  return {dx};
}

// in: x, dy
Tensors weight_grads(const Tensors& in, bool centred, bool has_bias) {
  Tensor xhat = normalised({in[0]}, centred).front();
  int64_t n = xhat.dim(-1);
  Tensor dw(Shape{n}), dc(Shape{n});
  for (int64_t i = 0; i < xhat.count(); ++i) {
    dw[i % n] += in[1][i] * xhat[i];
    dc[i % n] += in[1][i];
  }
  return has_bias ? Tensors{dw, dc} : Tensors{dw};
}

}  // namespace

std::vector<ConformanceCase> norm_cases() {
  std::vector<ConformanceCase> cases;
  Attributes eps{{"eps", kEps}}, small_eps{{"eps", kNormEpsilon}};
  for (bool centred : {true, false}) {
    const OpDef* op = centred ? &layer_norm_op : &rms_norm_op;
    auto forward = [=](const Tensors& in) { return normalised(in, centred); };
    // A random gain shows its own spread: many columns keep it near 1.
    std::vector<TensorType> small{{{2, 3, 5}}}, large{{{4, 10, 20000}}};
    cases.push_back({"plain", op, small, eps, forward, large, small_eps});
    cases.push_back({"plain, one row", op, {{{5}}}, eps, forward, {{{50000}}}, small_eps});
    for (const char* label : {"with w", "with w and c"}) {
      small.push_back({{5}});
      large.push_back({{20000}});
      if (small.size() > op->max_inputs) continue;
      cases.push_back({label, op, small, eps, forward, large, small_eps});
    }
    const OpDef* grad_op = centred ? &layer_norm_grad_op : &rms_norm_grad_op;
    const OpDef* weight_op = centred ? &layer_norm_weight_grad_op : &rms_norm_weight_grad_op;
    auto backward = [=](const Tensors& in) { return normalised_grad(in, centred); };
    TensorType x{{2, 3, 5}}, w{{5}}, long_rows{{3, 1100}}, many_rows{{301, 7}};
    cases.push_back({"plain", grad_op, {x, x}, eps, backward, {}, {}});
    cases.push_back({"with w", grad_op, {x, w, x}, eps, backward, {}, {}});
    cases.push_back({"with w, one row", grad_op, {w, w, w}, eps, backward, {}, {}});
    cases.push_back({"long rows", grad_op, {long_rows, long_rows}, eps, backward, {}, {}});
    auto push_sums = [&](const char* label, const TensorType& of, bool has_bias) {
      auto sums = [=](const Tensors& in) { return weight_grads(in, centred, has_bias); };
      Attributes attributes{{"eps", kEps}, {"has_bias", has_bias}};
      cases.push_back({label, weight_op, {of, of}, attributes, sums, {}, {}});
    };
    push_sums("of w", x, false);
    push_sums("of w, one row", w, false);
    push_sums("of w, many rows", many_rows, false);
    for (const TensorType& of : {x, long_rows, many_rows}) {
      if (centred) push_sums("of w and c", of, true);
    }
  }
  return cases;
}

}  // namespace sigma1
