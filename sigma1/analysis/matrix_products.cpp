#include "sigma1/analysis/matrix_products.h"

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/conv.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/recurrent.h"

namespace sigma1 {
namespace {

using Products = std::vector<MatrixProduct>;

// For each product of forward, backward has two of the same size.
Products twice(Products products) {
  for (MatrixProduct& each : products) each.count *= 2;
  return products;
}

Products of_matmul(const Node& node, const OpView& v) {
  const TensorType& y = node.outputs.front();
  int64_t n = v.in(0).dim(v.attr<bool>("transpose_left") ? -2 : -1), m = y.dim(-1);
  bool shared = v.in(1).rank() == 2;  // one matrix for the whole batch: its rows are one axis
  int64_t b = shared ? y.rows() : y.dim(-2);
  return {{.b = b, .n = n, .m = m, .count = y.count() / (b * m)}};
}

Products of_linear(const OpView& v) {
  return {{.b = v.in(0).rows(), .n = v.in(0).dim(-1), .m = v.in(1).dim(-1)}};
}

// Scores, those by position, and the weighted sum of values: a head's each.
Products of_attention(const OpView& v) {
  auto heads = v.attr<int64_t>("heads");
  int64_t tq = v.in(0).dim(1), tk = v.in(1).dim(1), d = v.in(0).dim(2) / heads;
  bool causal = v.attr<bool>("causal");
  double share = causal ? static_cast<double>(tk + 1) / static_cast<double>(2 * tk) : 1;
  MatrixProduct scores{tq, d, tk, v.in(0).dim(0) * heads, share};
  MatrixProduct values{tq, tk, d, scores.count, share};
  if (v.attr<bool>("has_relative")) return {scores, scores, values};
  return {scores, values};
}

Products of_conv(const Shape& x, const Shape& w, const Attributes& attributes) {
  ConvDims d = conv_dims(x, w, attributes);
  int64_t taps = d.time_out * d.kernel, read = 0;
  for (int64_t i = 0; i < taps; ++i) read += d.reads(i / d.kernel, i % d.kernel) ? 1 : 0;
  return {{.b = d.batch * d.time_out,
           .n = d.kernel * d.group_in(),
           .m = d.group_out(),
           .count = d.groups,
           .share = static_cast<double>(read) / static_cast<double>(taps)}};
}

// [x_t ; state] · w of all steps.
Products of_recurrent(const OpView& v) {
  int64_t h = v.in(1).dim(-1);
  return {{.b = v.in(0).rows(), .n = v.in(1).dim(0), .m = 2 * h}};
}

}  // namespace

int64_t MatrixProduct::flops() const {
  return std::llround(2 * static_cast<double>(count * b * n * m) * share);
}

std::vector<MatrixProduct> matrix_products(const Node& node) {
  if (node.op->multiplies == nullptr) return {};
  std::vector<TensorType> types = node.input_types();
  OpView view{types, node.attributes};
  if (node.op == &matmul_op) return of_matmul(node, view);
  if (node.op == &linear_op) return of_linear(view);
  if (node.op == &attention_op || node.op == &attention_kept_op) return of_attention(view);
  if (node.op == &attention_grad_op || node.op == &attention_kept_grad_op) {
    return twice(of_attention(view));
  }
  if (node.op == &recurrent_highway_op) return of_recurrent(view);
  if (node.op == &recurrent_highway_grad_op) return twice(of_recurrent(view));
  const Shape &first = types[0].shape, &second = types[1].shape;
  const Shape& output = node.outputs.front().shape;
  if (node.op == &conv1d_op) return of_conv(first, second, node.attributes);
  if (node.op == &conv1d_grad_input_op) return of_conv(output, second, node.attributes);
  if (node.op == &conv1d_grad_weight_op) return of_conv(first, output, node.attributes);
  throw Bug("matrix_products: {} multiplies, but how is not known", node.op->name);
}

int64_t product_flops(const Graph& graph) {
  int64_t flops = 0;
  for (const Node& node : graph.nodes()) {
    for (const MatrixProduct& product : matrix_products(node)) flops += product.flops();
  }
  return flops;
}

}  // namespace sigma1
