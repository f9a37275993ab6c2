#include "sigma1/ops/linear.h"

#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

// y[e, i, j] = Σ_k X[e, i, k] W[e, k, j], one element at a time.
Tensor product(const Tensor& x, const Tensor& w, bool left, bool right) {
  int64_t b = x.dim(left ? -1 : -2), m = x.dim(left ? -2 : -1), n = w.dim(right ? -2 : -1);
  int64_t w_step = w.shape.size() == 2 ? 0 : m * n;
  Shape shape(x.shape.begin(), x.shape.end() - 2);
  shape.insert(shape.end(), {b, n});
  Tensor y(shape);
  for (int64_t at = 0; at < y.count(); ++at) {
    int64_t j = at % n, i = at / n % b, e = at / (n * b);
    for (int64_t k = 0; k < m; ++k) {
      y[at] += x[e * b * m + (left ? k * b + i : i * m + k)] *
               w[e * w_step + (right ? j * m + k : k * n + j)];
    }
  }
  return y;
}

ConformanceCase matmul_case(std::string label, bool left, bool right, Shape leading, bool shared) {
  auto type = [&](int64_t rows, int64_t columns, bool transposed, bool with_leading) {
    Shape shape = with_leading ? leading : Shape{};
    shape.push_back(transposed ? columns : rows);
    shape.push_back(transposed ? rows : columns);
    return TensorType{shape};
  };
  Attributes attributes{{"transpose_left", left}, {"transpose_right", right}};
  return {std::move(label),
          &matmul_op,
          {type(3, 5, left, true), type(5, 4, right, !shared)},
          attributes,
          [=](const std::vector<Tensor>& in) {
            return std::vector<Tensor>{product(in[0], in[1], left, right)};
          },
          {type(96, 160, left, true), type(160, 128, right, !shared)},
          attributes};
}

}  // namespace

std::vector<ConformanceCase> linear_cases() {
  std::vector<ConformanceCase> cases;
  for (bool left : {false, true}) {
    for (bool right : {false, true}) {
      std::string flags = std::string(left ? "left" : "") + (right ? "right" : "");
      cases.push_back(matmul_case("matrix" + flags, left, right, {}, true));
      cases.push_back(matmul_case("shared" + flags, left, right, {2}, true));
      cases.push_back(matmul_case("batched" + flags, left, right, {2, 2}, false));
    }
  }
  cases.push_back({"bias",
                   &linear_op,
                   {{{2, 3, 5}}, {{5, 4}}, {{4}}},
                   {},
                   [](const std::vector<Tensor>& in) {
                     Tensor y = product(in[0], in[1], false, false);
                     for (int64_t i = 0; i < y.count(); ++i) y[i] += in[2][i % 4];
                     return std::vector<Tensor>{y};
                   },
                   // Wide, because a bias has only as many gradients as there are outputs.
                   {{{2, 96, 16}}, {{16, 4096}}, {{4096}}},
                   {}});
  return cases;
}

}  // namespace sigma1
