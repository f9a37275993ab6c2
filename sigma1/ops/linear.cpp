#include "sigma1/ops/linear.h"

#include <numeric>

#include "sigma1/ops/reduce.h"
#include "sigma1/ops/rules.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

constexpr const char* kReadout = "readout";

// X[batch, b, m] · W[m, n]; `shared`: one W for the whole batch.
struct MatmulDims {
  int64_t batch, b, m, n;
  bool shared;
};

MatmulDims matmul_dims(const OpView& v) {
  expect_rank_at_least(v, 0, 2);
  expect_rank_at_least(v, 1, 2);
  bool left = v.attr<bool>("transpose_left"), right = v.attr<bool>("transpose_right");
  const TensorType &x = v.in(0), &w = v.in(1);
  int64_t m = x.dim(left ? -2 : -1), rows_of_w = w.dim(right ? -1 : -2);
  if (m != rows_of_w) {
    throw Error("inner dimensions differ: {}{} and {}{}", to_string(x.shape),
                left ? " transposed" : "", to_string(w.shape), right ? " transposed" : "");
  }
  bool shared = w.rank() == 2;
  Shape leading_x(x.shape.begin(), x.shape.end() - 2),
      leading_w(w.shape.begin(), w.shape.end() - 2);
  if (!shared && leading_x != leading_w) {
    throw Error("leading axes differ: {} and {}", to_string(x.shape), to_string(w.shape));
  }
  return {element_count(leading_x), x.dim(left ? -1 : -2), m, w.dim(right ? -2 : -1), shared};
}

std::vector<TensorType> infer_matmul(const OpView& v) {
  MatmulDims dims = matmul_dims(v);
  Shape shape(v.in(0).shape.begin(), v.in(0).shape.end() - 2);
  shape.insert(shape.end(), {dims.b, dims.n});
  return {{shape}};
}

// Table A.2; b counts every row that is summed into W's gradient. A readout's output is meant to be
// m^-½ as large as its inputs, so that what it learns, not what it starts with, is of unit scale.
Scales scale_matmul(const OpView& v, const ScaleContext&) {
  auto [batch, b, m, n, shared] = matmul_dims(v);
  auto rows = static_cast<double>(shared ? batch * b : b), inner = static_cast<double>(m);
  double readout = v.attributes.get_or(kReadout, 0.0);
  double alpha = readout > 0 ? readout / inner : rsqrt(inner);
  return {alpha, {rsqrt(static_cast<double>(n)), rsqrt(rows)}};
}

Value as_matrix(Value x) {
  return x.shape().size() == 2 ? x : reshape(x, {x.type().rows(), x.type().dim(-1)});
}

Value swap_last_axes(Value x) {
  std::vector<int64_t> order(x.shape().size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(x, order);
}

// dX = dY·Wᵀ and dW = Xᵀ·dY, with the operands' own transpositions worked in.
Grads grad_matmul(GradView& g) {
  bool left = g.attr<bool>("transpose_left"), right = g.attr<bool>("transpose_right");
  Value x = g.x(0), w = g.x(1), dy = g.dy();
  bool merges_rows = w.shape().size() == 2 && x.shape().size() > 2;
  if (!merges_rows) {
    Value dx = left ? matmul(w, dy, {right, true}) : matmul(dy, w, {false, !right});
    Value dw = right ? matmul(dy, x, {true, left}) : matmul(x, dy, {!left, false});
    return {dx, dw};
  }
  // One W for the whole batch: batch and rows become one axis, rows first where they were last.
  Value rows_dx = matmul(dy, w, {false, !right});
  Value dx = left ? swap_last_axes(rows_dx) : rows_dx;
  Value rows_first = left ? swap_last_axes(x) : x;
  Value rows_x = as_matrix(rows_first);
  Value rows_dy = as_matrix(dy);
  Value dw =
      right ? matmul(rows_dy, rows_x, {true, false}) : matmul(rows_x, rows_dy, {true, false});
  return {dx, dw};
}

void evaluate_matmul(const EvalView& v) {
  std::vector<TensorType> types{{v.in(0).shape}, {v.in(1).shape}};
  auto [batch, b, m, n, shared] = matmul_dims({types, v.attributes});
  bool left = v.attr<bool>("transpose_left"), right = v.attr<bool>("transpose_right");
  for (int64_t each = 0; each < batch; ++each) {
    const double* x = v.in(0).data.data() + each * b * m;
    const double* w = v.in(1).data.data() + (shared ? 0 : each * m * n);
    double* y = v.out().data.data() + each * b * n;
    for (int64_t i = 0; i < b; ++i) {
      for (int64_t k = 0; k < m; ++k) {
        double factor = left ? x[k * b + i] : x[i * m + k];
        for (int64_t j = 0; j < n; ++j)
          y[i * n + j] += factor * (right ? w[j * m + k] : w[k * n + j]);
      }
    }
  }
}

Attributes matmul_attributes(Transpose transpose) {
  return {{"transpose_left", transpose.left}, {"transpose_right", transpose.right}};
}

Attributes matmul_defaults(std::span<const TensorType>) { return matmul_attributes({}); }

struct LinearDims {
  int64_t b, m, n;
};

LinearDims linear_dims(const OpView& v) {
  expect_rank_at_least(v, 0, 1);
  expect_rank_at_least(v, 1, 2);
  int64_t m = v.in(0).dim(-1), n = v.in(1).dim(-1);
  expect_shape(v, 1, {m, n});
  expect_shape(v, 2, {n});
  return {v.in(0).rows(), m, n};
}

std::vector<TensorType> infer_linear(const OpView& v) {
  LinearDims dims = linear_dims(v);
  Shape shape = v.in(0).shape;
  shape.back() = dims.n;
  return {{shape}};
}

// The bias starts at zero, so that the product alone sets the scale. It is added before α: in a
// fused kernel the epilogue scales accumulator and bias alike.
Scales scale_linear(const OpView& v, const ScaleContext&) {
  auto [b, m, n] = linear_dims(v);
  double rows = rsqrt(static_cast<double>(b));
  return {rsqrt(static_cast<double>(m)), {rsqrt(static_cast<double>(n)), rows, rows}};
}

Role linear_role(const OpView&, size_t input) {
  return input == 0 ? Role::activation : input == 1 ? Role::weight : Role::bias;
}

Grads grad_linear(GradView& g) {
  Value x = g.x(0), w = g.x(1), dy = g.dy();
  Value rows_x = as_matrix(x), rows_dy = as_matrix(dy);
  Value dx = matmul(rows_dy, w, {false, true});
  Value dw = matmul(rows_x, rows_dy, {true, false});
  Value dbias = sum(rows_dy, {0});
  return {x.shape().size() == 2 ? dx : reshape(dx, x.shape()), dw, dbias};
}

void evaluate_linear(const EvalView& v) {
  int64_t m = v.in(0).dim(-1), n = v.in(1).dim(-1), b = v.in(0).count() / m;
  for (int64_t i = 0; i < b; ++i) {
    for (int64_t j = 0; j < n; ++j) v.out()[i * n + j] = v.in(2)[j];
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t j = 0; j < n; ++j) {
        v.out()[i * n + j] += v.in(0)[i * m + k] * v.in(1)[k * n + j];
      }
    }
  }
}

}  // namespace

constinit const OpDef matmul_op{.name = "matmul",
                                .formula = "X[b,m] W[m,n]; α=m^-½, β_X=n^-½, β_W=b^-½",
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .infer = infer_matmul,
                                .scale = scale_matmul,
                                .grad = grad_matmul,
                                .evaluate = evaluate_matmul,
                                .role = linear_role,
                                .defaults = matmul_defaults,
                                .linear_in = every_input,
                                .multiplies = every_input};

constinit const OpDef linear_op{.name = "linear",
                                .formula = "X[b,m] W[m,n] + c[n]; α=m^-½, β_X=n^-½, β_W=β_c=b^-½",
                                .min_inputs = 3,
                                .max_inputs = 3,
                                .infer = infer_linear,
                                .scale = scale_linear,
                                .grad = grad_linear,
                                .evaluate = evaluate_linear,
                                .role = linear_role,
                                .multiplies = first_two_inputs};

Value matmul(Value x, Value w, Transpose transpose) {
  return x.graph->append_one(matmul_op, {x, w}, matmul_attributes(transpose));
}

Value readout(Value x, Value w, double multiplier) {
  Attributes attributes = matmul_attributes({});
  attributes.set(kReadout, multiplier);
  return x.graph->append_one(matmul_op, {x, w}, attributes);
}

bool is_readout(const Node& node) { return node.attributes.get_or(kReadout, 0.0) > 0; }

Value linear(Value x, Value w, Value bias) { return x.graph->append_one(linear_op, {x, w, bias}); }

}  // namespace sigma1
