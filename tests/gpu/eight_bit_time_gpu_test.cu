// What a layer of 8-bit products costs beside the bare products: by itself, with a cast of each
// factor, and in a model, where whoever computes a factor writes it in 8 bits. Times are printed.
#include <gtest/gtest.h>

#include <cstdio>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/gemm.cuh"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/residual.h"
#include "sigma1/runtime/product_floor.h"
#include "tests/gpu/eight_bit_case.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

double time_of(const std::shared_ptr<Graph>& graph) {
  Store store(cuda_device());
  Program program(graph, store);
  for (const Node& node : graph->nodes()) {
    if (node.inputs.empty()) write_normal_numbers(store, node.name);
  }
  return microseconds_of(10, [&] { program.launch(); });
}

// The three products alone, their factors already as the tensor cores want them.
double bare_products(const LayerSizes& sizes) {
  using cuda::Type;
  Store store(cuda_device());
  auto factor = [&](const char* name, int64_t count, const char* format) {
    store.create(name, {Shape{count}}, product_cast(format));
    write_normal_numbers(store, name);
    return cuda::view_of(store.at(name));
  };
  auto [rows, in, out] = sizes;
  cuda::View x = factor("x", rows * in, "e4m3"), w = factor("w", in * out, "e4m3");
  cuda::View dy = factor("dy", rows * out, "e5m2");
  DeviceBytes results(cuda_device(), 2 * std::max({rows * in, in * out, rows * out}));
  auto product = [&](int64_t m, int64_t n, int64_t k, const cuda::View& a, const cuda::View& b) {
    cuda::Gemm p = cuda::Gemm::packed(m, n, k, false, true);
    p.a = a;
    p.b = b;
    p.c = cuda::View{results.data(), Type::fp16, false, nullptr, results.size()};
    return p;
  };
  std::vector<cuda::Gemm> products{product(rows, out, in, x, w), product(in, rows, out, w, dy),
                                   product(in, out, rows, x, dy)};
  int64_t bytes = 1;
  for (const cuda::Gemm& each : products) bytes = std::max(bytes, cuda::gemm_workspace(each));
  DeviceBytes workspace(cuda_device(), bytes);
  return microseconds_of(10, [&] {
    for (const cuda::Gemm& each : products) {
      cuda::gemm(each, cuda::stream(), {workspace.data(), static_cast<size_t>(bytes)});
    }
  });
}

// What computes x and dy in a Transformer: the wide side of a layer is an activation and its
// gradient, the narrow one a norm and its gradient, each with a residual sum that is kept. With
// `products` in 8 bits, without them in fp16 and nothing else.
std::shared_ptr<Graph> model_graph(const LayerSizes& sizes, bool products) {
  LayerGraph layer{sizes};
  const Cast halves = storage_cast("fp16");
  auto kept = [&](const char* name, Value value) {
    layer.graph->mark_output(name, layer.stored(value, halves));
    return value;
  };
  auto result = [&](const char* name, Value value, const char* format) {
    return products ? layer.stored(value, product_cast(format)) : kept(name, value);
  };
  Shape of_x{sizes.rows, sizes.in}, of_dy{sizes.rows, sizes.out};
  Value before = layer.source("before", of_x), x;
  if (sizes.in > sizes.out) {
    x = result("x", gelu(before), "e4m3");
  } else {
    Value sum = kept("sum", weighted_add({before, layer.source("branch", of_x)}, {1, 1}));
    Value gain = layer.source("gain", {sizes.in}), shift = layer.source("shift", {sizes.in});
    x = result("x", layer_norm(sum, gain, shift), "e4m3");
  }
  Value after = layer.source("after", of_dy), gradient = layer.source("gradient", of_dy), dy;
  if (sizes.out > sizes.in) {
    dy = result("dy", layer.graph->append_one(gelu_grad_op, {after, gradient}, {}), "e5m2");
  } else {
    Value through = layer.stored(
        layer.graph->append_one(layer_norm_grad_op,
                                {after, layer.source("next gain", {sizes.out}), gradient},
                                {{"eps", kNormEpsilon}}),
        halves);
    Value sum = weighted_add({through, layer.source("past", of_dy)}, {1, 1});
    dy = kept("sum of gradients", sum);
    if (products) dy = layer.cast(sum, "e5m2");
  }
  if (products) {
    Value w = layer.cast(layer.source("w", {sizes.in, sizes.out}), "e4m3");
    layer.add_products(x, w, dy, "fp16");
  }
  return layer.graph;
}

TEST(EightBitsTime, IsPrinted) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (LayerSizes sizes : {LayerSizes{32768, 1024, 1024},
                           {32768, 1024, 4096},
                           {32768, 4096, 1024},
                           {32768, 768, 768},
                           {32768, 768, 3072},
                           {32768, 3072, 768}}) {
    double bare = bare_products(sizes), alone = time_of(layer_graph(sizes));
    double others = time_of(model_graph(sizes, false));
    double in_model = time_of(model_graph(sizes, true)) - others;
    double flops =
        6e-6 * static_cast<double>(sizes.rows * sizes.in) * static_cast<double>(sizes.out);
    std::printf(
        "%6lld x %4lld x %4lld: products %6.1f us (%4.0f TFLOP/s), layer alone %6.1f us (%.2f x), "
        "in a model %6.1f us (%.2f x) more than the %6.1f us of who computes its factors in fp16\n",
        static_cast<long long>(sizes.rows), static_cast<long long>(sizes.in),
        static_cast<long long>(sizes.out), bare, flops / bare, alone, alone / bare, in_model,
        in_model / bare, others);
  }
}

}  // namespace
}  // namespace sigma1
