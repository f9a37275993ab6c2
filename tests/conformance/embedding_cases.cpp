#include "sigma1/ops/embedding.h"

#include "tests/conformance/at.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Tensors = std::vector<Tensor>;

TensorType real(Shape shape) { return {std::move(shape), Kind::real}; }
TensorType index(Shape shape) { return {std::move(shape), Kind::index}; }

// As a product with 0 and 1, which is what a lookup is.
double picked(double index, int64_t row) { return index == static_cast<double>(row) ? 1 : 0; }

// ids[2, 3], table[5, 4]
Tensors look_up(const Tensors& in) {
  return {tensor_of(2, 3, 4, [&](int64_t i, int64_t j, int64_t d) {
    double sum = 0;
    for (int64_t row = 0; row < 5; ++row)
      sum += picked(at(in[1], {i, j}), row) * at(in[0], {row, d});
    return sum;
  })};
}

// dy[2, 3, 4], ids[2, 3] → [5, 4]
Tensors look_up_grad(const Tensors& in) {
  Tensor table(Shape{5, 4});
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t d = 0; d < 4; ++d) {
      for (int64_t i = 0; i < 6; ++i)
        at(table, {row, d}) += picked(in[1][i], row) * in[0][i * 4 + d];
    }
  }
  return {table};
}

// x[2, 5, 4], rows[2, 3]
Tensors gather(const Tensors& in) {
  return {tensor_of(2, 3, 4, [&](int64_t b, int64_t k, int64_t d) {
    double sum = 0;
    for (int64_t n = 0; n < 5; ++n) sum += picked(at(in[1], {b, k}), n) * at(in[0], {b, n, d});
    return sum;
  })};
}

// dy[2, 3, 4], rows[2, 3] → [2, 5, 4]
Tensors gather_grad(const Tensors& in) {
  return {tensor_of(2, 5, 4, [&](int64_t b, int64_t n, int64_t d) {
    double sum = 0;
    for (int64_t k = 0; k < 3; ++k) sum += picked(at(in[1], {b, k}), n) * at(in[0], {b, k, d});
    return sum;
  })};
}

}  // namespace

std::vector<ConformanceCase> embedding_cases() {
  Attributes five_rows{{"rows", int64_t{5}}};
  return {
      {"embedding",
       &embedding_op,
       {real({5, 4}), index({2, 3})},
       {},
       look_up,
       {real({300, 100}), index({20, 30})},
       {}},
      {"embedding, most rows unused",
       &embedding_op,
       {real({5, 4}), index({3})},
       {},
       [](const Tensors& in) {
         Tensor twice({2, 3}, in[1].data);
         twice.data.insert(twice.data.end(), in[1].data.begin(), in[1].data.end());
         Tensor rows = look_up({in[0], twice}).front();
         rows.data.resize(12);
         return Tensors{Tensor({3, 4}, rows.data)};
       },
       {real({1000, 200}), index({250})},
       {}},
      {"embedding_grad",
       &embedding_grad_op,
       {real({2, 3, 4}), index({2, 3})},
       five_rows,
       look_up_grad,
       {},
       {}},
      {"gather_rows",
       &gather_rows_op,
       {real({2, 5, 4}), index({2, 3})},
       {},
       gather,
       {real({20, 50, 100}), index({20, 30})},
       {}},
      {"gather_rows, more than there are",
       &gather_rows_op,
       {real({2, 1, 4}), index({2, 3})},
       {},
       [](const Tensors& in) {
         auto only = [&](int64_t b, int64_t, int64_t d) { return at(in[0], {b, 0, d}); };
         return Tensors{tensor_of(2, 3, 4, only)};
       },
       {real({20, 10, 200}), index({20, 40})},
       {}},
      {"gather_rows_grad",
       &gather_rows_grad_op,
       {real({2, 3, 4}), index({2, 3})},
       five_rows,
       gather_grad,
       {},
       {}},
  };
}

}  // namespace sigma1
