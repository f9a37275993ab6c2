#include "sigma1/ops/softmax.h"

#include <cmath>

#include "tests/conformance/at.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Tensors = std::vector<Tensor>;

// One probability as the reciprocal of a sum of differences: x[i] against the row it stands in.
double probability(const Tensor& x, int64_t i, double multiplier) {
  int64_t n = x.dim(-1), row = i / n * n;
  double sum = 0;
  for (int64_t j = row; j < row + n; ++j) sum += std::exp(multiplier * (x[j] - x[i]));
  return 1 / sum;
}

Tensor probabilities(const Tensor& x, double multiplier) {
  Tensor p(x.shape);
  for (int64_t i = 0; i < x.count(); ++i) p[i] = probability(x, i, multiplier);
  return p;
}

// dy times the Jacobian m·(diag(p) − p·pᵀ), every element of it.
Tensor jacobian_product(const Tensor& x, const Tensor& dy, double multiplier) {
  int64_t n = x.dim(-1);
  Tensor p = probabilities(x, multiplier), dx(x.shape);
  for (int64_t i = 0; i < x.count(); ++i) {
    for (int64_t j = i / n * n; j < i / n * n + n; ++j) {
      dx[i] += dy[j] * multiplier * p[j] * ((i == j ? 1 : 0) - p[i]);
    }
  }
  return dx;
}

std::vector<ConformanceCase> softmax_alone_cases() {
  std::vector<ConformanceCase> cases;
  for (double multiplier : {1.0, 0.5, 2.0}) {
    // A hot softmax has heavy tails; few logits keep them bounded.
    TensorType large{multiplier > 1 ? Shape{20000, 10} : Shape{40, 100, 250}};
    Attributes attributes{{"multiplier", multiplier}};
    auto forward = [=](const Tensors& in) { return Tensors{probabilities(in[0], multiplier)}; };
    auto backward = [=](const Tensors& in) {
      return Tensors{jacobian_product(in[0], in[1], multiplier)};
    };
    std::string label = "times " + std::to_string(multiplier);
    cases.push_back({label, &softmax_op, {{{2, 3, 4}}}, attributes, forward, {large}, attributes});
    cases.push_back({label, &softmax_grad_op, {{{3, 4}}, {{3, 4}}}, attributes, backward, {}, {}});
  }
  return cases;
}

// in: logits[2, 3, 5], targets[2, 3] and perhaps weights[2, 3]
Tensors cross_entropy(const Tensors& in, bool weighted, double divisor) {
  double loss = 0;
  for (int64_t row = 0; row < in[1].count(); ++row) {
    auto target = row * in[0].dim(-1) + static_cast<int64_t>(in[1][row]);
    loss -= std::log(probability(in[0], target, 1)) * (weighted ? in[2][row] : 1) / divisor;
  }
  return {Tensor(Shape{}, {loss})};
}

Tensors cross_entropy_grad(const Tensors& in, bool weighted, double divisor) {
  int64_t vocabulary = in[0].dim(-1);
  Tensor dx(in[0].shape);
  for (int64_t i = 0; i < dx.count(); ++i) {
    int64_t row = i / vocabulary;
    double hit = in[1][row] == static_cast<double>(i % vocabulary) ? 1 : 0;
    double weight = (weighted ? in[2][row] : 1) * in.back()[0] / divisor;
    dx[i] = weight * (probability(in[0], i, 1) - hit);
  }
  return {dx};
}

std::vector<ConformanceCase> cross_entropy_cases() {
  TensorType logits{{2, 3, 5}}, targets{{2, 3}, Kind::index}, weights{{2, 3}}, dloss{Shape{}};
  TensorType many_logits{{40, 30, 100}}, many_targets{{40, 30}, Kind::index},
      many_weights{{40, 30}};
  std::vector<ConformanceCase> cases;
  for (bool weighted : {false, true}) {
    for (bool mean : {false, true}) {
      std::string reduction = mean ? "mean" : "sum";
      Attributes attributes{{"reduction", reduction}};
      std::vector<TensorType> small{logits, targets}, large{many_logits, many_targets};
      if (weighted) {
        small.push_back(weights);
        large.push_back(many_weights);
      }
      double divisor = mean ? 6 : 1;
      auto forward = [=](const Tensors& in) { return cross_entropy(in, weighted, divisor); };
      auto backward = [=](const Tensors& in) { return cross_entropy_grad(in, weighted, divisor); };
      std::string label = reduction + (weighted ? " weighted" : "");
      cases.push_back({label, &softmax_xent_op, small, attributes, forward, large, attributes});
      auto both = [=](Tensors in) {
        Tensor loss = forward(in).front();
        in.push_back(Tensor(Shape{}, {1}));
        return Tensors{loss, backward(in).front()};
      };
      cases.push_back({label, &softmax_xent_with_grad_op, small, attributes, both, {}, {}});
      small.push_back(dloss);
      cases.push_back({label, &softmax_xent_grad_op, small, attributes, backward, {}, {}});
    }
  }
  cases.push_back({"one row",
                   &softmax_xent_op,
                   {{{5}}, {Shape{}, Kind::index}},
                   {{"reduction", std::string("sum")}},
                   [](const Tensors& in) { return cross_entropy(in, false, 1); },
                   {{{20000}}, {Shape{}, Kind::index}},
                   {{"reduction", std::string("sum")}}});
  return cases;
}

std::vector<ConformanceCase> squared_error_cases() {
  std::vector<ConformanceCase> cases;
  for (bool mean : {false, true}) {
    Attributes attributes{{"reduction", std::string(mean ? "mean" : "sum")}};
    double divisor = mean ? 12 : 1;
    auto forward = [=](const Tensors& in) {
      double loss = 0;
      for (int64_t i = 0; i < 12; ++i) {
        loss += (in[0][i] * in[0][i] - 2 * in[0][i] * in[1][i] + in[1][i] * in[1][i]) / divisor;
      }
      return Tensors{Tensor(Shape{}, {loss})};
    };
    TensorType small{{3, 4}}, large{{100, 200}};
    cases.push_back({mean ? "mean" : "sum",
                     &mse_op,
                     {small, small},
                     attributes,
                     forward,
                     {large, large},
                     attributes});
  }
  return cases;
}

}  // namespace

std::vector<ConformanceCase> softmax_cases() {
  std::vector<ConformanceCase> cases = softmax_alone_cases();
  for (ConformanceCase& each : cross_entropy_cases()) cases.push_back(std::move(each));
  for (ConformanceCase& each : squared_error_cases()) cases.push_back(std::move(each));
  return cases;
}

}  // namespace sigma1
