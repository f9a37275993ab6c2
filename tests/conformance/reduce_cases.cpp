#include "sigma1/ops/reduce.h"

#include "tests/conformance/at.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Tensors = std::vector<Tensor>;

const TensorType small{{2, 3, 4}}, large{{20, 30, 40}};
// Enough elements when one of the axes above is left.
const TensorType tall{{3, 30, 4000}};

// Σ over the outer and the inner axis, what is left being the middle one.
Tensor sum_around(const Tensor& x) {
  Tensor y(Shape{3});
  for (int64_t j = 0; j < 3; ++j) {
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t k = 0; k < 4; ++k) y[j] += at(x, {i, j, k});
    }
  }
  return y;
}

Tensor sum_middle(const Tensor& x) {
  Tensor y(Shape{2, 4});
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t k = 0; k < 4; ++k) {
      at(y, {i, k}) = at(x, {i, 0, k}) + at(x, {i, 1, k}) + at(x, {i, 2, k});
    }
  }
  return y;
}

Tensor times(Tensor x, double factor) {
  for (double& value : x.data) value *= factor;
  return x;
}

Attributes over(std::vector<int64_t> axes) { return {{"axes", std::move(axes)}}; }

Attributes to(Shape shape, std::vector<int64_t> axes) {
  return {{"shape", std::move(shape)}, {"axes", std::move(axes)}};
}

std::vector<ConformanceCase> sum_and_mean_cases() {
  TensorType many_rows{{10, 10000, 12}};
  return {
      {"sum over the middle axis",
       &sum_op,
       {small},
       over({1}),
       [](const Tensors& in) { return Tensors{sum_middle(in[0])}; },
       {tall},
       over({1})},
      {"sum over outer axes, one counted from the end",
       &sum_op,
       {small},
       over({-1, 0}),
       [](const Tensors& in) { return Tensors{sum_around(in[0])}; },
       {many_rows},
       over({-1, 0})},
      {"sum over no axes",
       &sum_op,
       {small},
       over({}),
       [](const Tensors& in) { return Tensors{in[0]}; },
       {large},
       over({})},
      {"mean over the middle axis",
       &mean_op,
       {small},
       over({1}),
       [](const Tensors& in) { return Tensors{times(sum_middle(in[0]), 1.0 / 3)}; },
       {tall},
       over({1})},
      {"mean over outer axes",
       &mean_op,
       {small},
       over({0, 2}),
       [](const Tensors& in) { return Tensors{times(sum_around(in[0]), 1.0 / 8)}; },
       {many_rows},
       over({0, 2})},
      {"mean over no axes",
       &mean_op,
       {small},
       over({}),
       [](const Tensors& in) { return Tensors{in[0]}; },
       {large},
       over({})},
  };
}

std::vector<ConformanceCase> broadcast_cases() {
  return {
      {"broadcast along a middle axis",
       &broadcast_op,
       {{{2, 4}}},
       to({2, 3, 4}, {1}),
       [](const Tensors& in) {
         auto repeat = [&](int64_t i, int64_t, int64_t k) { return at(in[0], {i, k}); };
         return Tensors{tensor_of(2, 3, 4, repeat)};
       },
       {{{100, 200}}},
       to({100, 30, 200}, {1})},
      {"broadcast along outer axes",
       &broadcast_op,
       {{{3}}},
       to({2, 3, 4}, {0, -1}),
       [](const Tensors& in) {
         return Tensors{tensor_of(2, 3, 4, [&](int64_t, int64_t j, int64_t) { return in[0][j]; })};
       },
       {{{20000}}},
       to({5, 20000, 7}, {0, -1})},
      {"broadcast of a scalar",
       &broadcast_op,
       {{Shape{}}},
       to({3}, {0}),
       [](const Tensors& in) { return Tensors{Tensor({3}, std::vector<double>(3, in[0][0]))}; },
       {{{20000}}},
       to({20000}, {})},
  };
}

}  // namespace

std::vector<ConformanceCase> reduce_cases() {
  std::vector<ConformanceCase> cases = sum_and_mean_cases();
  for (ConformanceCase& each : broadcast_cases()) cases.push_back(std::move(each));
  return cases;
}

}  // namespace sigma1
