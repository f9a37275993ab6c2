#include "sigma1/backend/cuda/eight_bits.cuh"

#include "sigma1/backend/cuda/gemm.cuh"
#include "sigma1/backend/cuda/line_chain.cuh"
#include "sigma1/ops/linear.h"

namespace sigma1::cuda {
namespace {

double product_microseconds(int64_t m, int64_t n, int64_t k, Type a, Type b) {
  Gemm product = Gemm::packed(m, n, k, false, true);
  product.a.type = a;
  product.b.type = b;
  product.c.type = Type::fp16;
  return gemm_microseconds(product);
}

// A product of `rows` with W[in, out], and both of its gradients.
double layer_microseconds(int64_t rows, int64_t in, int64_t out, Type forward, Type gradient) {
  return product_microseconds(rows, out, in, forward, forward) +
         product_microseconds(rows, in, out, gradient, forward) +
         product_microseconds(in, out, rows, forward, gradient);
}

}  // namespace

std::string why_not_8_bits(const Graph& graph, int node) {
  const Node& product = graph.node(node);
  bool is_plain = product.op == &matmul_op || product.op == &linear_op;
  if (!is_plain || product.inputs[1].shape().size() != 2) return "they are computed in 16 bits";
  int64_t out = product.outputs.front().dim(-1);
  int64_t in = product.inputs[1].type().count() / out;
  int64_t rows = product.outputs.front().count() / out;
  if (!has_many_rows(rows))
    return "so few rows pass from op to op without a stop in memory, in 16 bits";
  constexpr int64_t kGranule = 16;
  if (rows % kGranule != 0 || in % kGranule != 0 || out % kGranule != 0) {
    return "tensor cores take multiples of 16";
  }
  constexpr double kWorthIt = 0.9;
  double of_8 = layer_microseconds(rows, in, out, Type::e4m3, Type::e5m2);
  double of_16 = layer_microseconds(rows, in, out, Type::fp16, Type::fp16);
  return of_8 <= kWorthIt * of_16 ? "" : "their shapes measure no faster";
}

}  // namespace sigma1::cuda
