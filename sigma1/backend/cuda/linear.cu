#include "sigma1/ops/linear.h"

#include <algorithm>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/gemm.cuh"
#include "sigma1/backend/cuda/kernel_table.h"

namespace sigma1::cuda {
namespace {

Gemm with_operands(Gemm product, const Launch& launch) {
  product.a = view_of(launch.in(0));
  product.b = view_of(launch.in(1));
  product.c = view_of(launch.out());
  product.turned_a = launch.in(0).turned;
  product.turned_b = launch.in(1).turned;
  const Device* device = launch.out().device;
  if (device != nullptr) product.choices = product_choices(*device);
  return product;
}

Gemm matmul_product(const Launch& launch) {
  const Shape &x = launch.in(0).shape, &w = launch.in(1).shape, &y = launch.out().shape;
  bool left = launch.attr<bool>("transpose_left"), right = launch.attr<bool>("transpose_right");
  bool shared = w.size() == 2;
  int64_t n = y.back(), m = y[y.size() - 2], k = x[x.size() - (left ? 2 : 1)];
  int64_t count = element_count(Shape(x.begin(), x.end() - 2));
  // One W and rows that follow each other: a single tall product.
  if (shared && !left) {
    return with_operands(Gemm::packed(count * m, n, k, left, right), launch);
  }
  Gemm product = Gemm::packed(m, n, k, left, right, count);
  if (shared) product.step_b = 0;
  return with_operands(product, launch);
}

Gemm linear_product(const Launch& launch) {
  const Shape& w = launch.in(1).shape;
  int64_t rows = launch.out().count() / std::max<int64_t>(w[1], 1);
  Gemm product = with_operands(Gemm::packed(rows, w[1], w[0]), launch);
  product.bias = view_of(launch.in(2));
  return product;
}

template <Gemm (*product_of)(const Launch&)>
void run_product(const Launch& launch) {
  Gemm product = product_of(launch);
  product.alpha = launch.factor();
  gemm(product, stream(), launch.workspace);
}

template <Gemm (*product_of)(const Launch&)>
int64_t product_workspace(const Launch& launch) {
  return gemm_workspace(product_of(launch));
}

constexpr Kernel kKernels[] = {
    {&matmul_op, run_product<matmul_product>, product_workspace<matmul_product>},
    {&linear_op, run_product<linear_product>, product_workspace<linear_product>},
};

}  // namespace

std::span<const Kernel> linear_kernels() { return kKernels; }

}  // namespace sigma1::cuda
