#include "sigma1/ops/residual.h"

#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

std::vector<Tensor> weighted_sum(const std::vector<Tensor>& in,
                                 const std::vector<double>& weights) {
  Tensor y(in[0].shape);
  for (int64_t i = 0; i < y.count(); ++i) {
    for (size_t term = 0; term < in.size(); ++term)
      y[i] += weights[term] * in[term][i % in[term].count()];
  }
  return {y};
}

ConformanceCase weighted_case(std::string label, std::vector<double> weights,
                              std::vector<TensorType> small, std::vector<TensorType> large) {
  Attributes attributes{{"weights", weights}};
  return {std::move(label),
          &weighted_add_op,
          std::move(small),
          attributes,
          [=](const std::vector<Tensor>& in) { return weighted_sum(in, weights); },
          std::move(large),
          attributes};
}

}  // namespace

std::vector<ConformanceCase> residual_cases() {
  const TensorType small{{2, 3, 5}}, large{{100, 5000}};
  auto plain_sum = [](const std::vector<Tensor>& in) {
    return weighted_sum(in, std::vector<double>(in.size(), 1.0));
  };
  return {
      {"two", &add_op, {small, small}, {}, plain_sum, {large, large}, {}},
      {"three", &add_op, {small, small, small}, {}, plain_sum, {large, large, large}, {}},
      {"shorter", &add_op, {small, {{5}}}, {}, plain_sum, {large, {{5000}}}, {}},
      weighted_case("two", {0.8, -0.6}, {small, small}, {large, large}),
      weighted_case("three", {2, 1, 0.5}, {small, small, {{3, 5}}}, {large, large, {{5000}}}),
  };
}

}  // namespace sigma1
