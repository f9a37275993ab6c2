// Layers whose products have factors of 8 bits: the three products of a training step against the
// CPU's, and their time with all casts against that of the bare products.
#include <gtest/gtest.h>

#include <cstdio>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/gemm.cuh"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "tests/gpu/timed_call.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

struct LayerSizes {
  int64_t rows, in, out;
};

// A layer, forward and backward, as lower_precision has it: each factor is cast once.
std::shared_ptr<Graph> layer_graph(const LayerSizes& sizes, const char* result_format = "fp16") {
  auto graph = std::make_shared<Graph>();
  auto source = [&](const char* name, int64_t rows, int64_t columns) {
    Value value = graph->input(name, {{rows, columns}});
    graph->node(value.node).storage = {storage_cast("fp16")};
    return value;
  };
  auto cast = [&](Value value, const char* format) {
    Value result = identity(value);
    graph->node(result.node).storage = {product_cast(format)};
    return result;
  };
  auto product = [&](const char* name, Value a, Value b, Transpose transpose, int64_t terms) {
    Value result = matmul(a, b, transpose);
    graph->node(result.node).alpha = 1 / std::sqrt(static_cast<double>(terms));
    graph->node(result.node).storage = {storage_cast(result_format)};
    graph->mark_output(name, result);
  };
  Value x = source("x", sizes.rows, sizes.in), w = source("w", sizes.in, sizes.out);
  Value dy = source("dy", sizes.rows, sizes.out);
  Value x8 = cast(x, "e4m3"), w8 = cast(w, "e4m3"), dy8 = cast(dy, "e5m2");
  product("y", x8, w8, {}, sizes.in);
  product("dx", dy8, w8, {false, true}, sizes.out);
  product("dw", x8, dy8, {true, false}, sizes.rows);
  return graph;
}

Bindings random_inputs(const Graph& graph) {
  Bindings bindings;
  for (const Node& node : graph.nodes()) {
    if (!node.inputs.empty()) continue;
    Tensor tensor(node.outputs.front().shape);
    RandomStream random(7, node.name, 0);
    for (int64_t i = 0; i < tensor.count(); ++i)
      tensor[i] = random.normal(static_cast<uint64_t>(i));
    bindings[node.name] = std::move(tensor);
  }
  return bindings;
}

class EightBits : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// Sums of fast products have some 14 bits; results are rounded to 11.
TEST_F(EightBits, GiveTheProductsOfTheCpu) {
  for (LayerSizes sizes : {LayerSizes{256, 128, 384}, {4608, 80, 48}, {48, 1024, 16}}) {
    auto graph = layer_graph(sizes);
    Bindings bindings = random_inputs(*graph);
    ProgramRun cpu(graph, bindings), gpu(graph, bindings, {}, cuda_device());
    cpu.program.run(0);
    gpu.program.run(0);
    for (const auto& [name, value] : graph->outputs()) {
      double error =
          relative_error(tensor_of(gpu.program.output(name)), tensor_of(cpu.program.output(name)));
      EXPECT_LE(error, 1e-3) << name << " of " << sizes.rows << " rows";
    }
  }
}

// The error of a long sum, in fp32, where it is summed as asked and by default. The exact way adds
// up in fp32 what tensor cores sum of some 128 terms, whose last of 14 bits is off by half.
TEST_F(EightBits, SumAsAsked) {
  constexpr LayerSizes kSizes{16384, 128, 256};
  auto graph = layer_graph(kSizes, "fp32");
  Bindings bindings = random_inputs(*graph);
  ProgramRun cpu(graph, bindings);
  cpu.program.run(0);
  auto error_on = [&](const char* device) {
    ProgramRun gpu(graph, bindings, {}, find_device(device));
    gpu.program.run(0);
    double error =
        relative_error(tensor_of(gpu.program.output("dw")), tensor_of(cpu.program.output("dw")));
    std::printf("sums of %lld products, %s: error %.2e\n", static_cast<long long>(kSizes.rows),
                device, error);
    return error;
  };
  double by_length = error_on("cuda"), exact = error_on("cuda+exact-sums");
  double fast = error_on("cuda+fast-sums");
  EXPECT_EQ(by_length, exact);
  EXPECT_LE(exact, 2e-4);
  EXPECT_GT(fast, 2 * exact);
  EXPECT_LE(fast, 1e-2);
}

// The three products alone, their factors already as the tensor cores want them.
double bare_products(const LayerSizes& sizes) {
  using cuda::Type;
  auto room = [](int64_t count, int bytes) { return DeviceBytes(cuda_device(), count * bytes); };
  auto [rows, in, out] = sizes;
  DeviceBytes x = room(rows * in, 1), w = room(in * out, 1), dy = room(rows * out, 1);
  DeviceBytes results = room(std::max({rows * in, in * out, rows * out}), 2);
  auto view = [](const DeviceBytes& bytes, Type type) {
    return cuda::View{bytes.data(), type, false, nullptr, bytes.size()};
  };
  auto product = [&](int64_t m, int64_t n, int64_t k, const DeviceBytes& a, const DeviceBytes& b,
                     Type of_b) {
    cuda::Gemm p = cuda::Gemm::packed(m, n, k, false, true);
    p.a = view(a, Type::e4m3);
    p.b = view(b, of_b);
    p.c = view(results, Type::fp16);
    return p;
  };
  std::vector<cuda::Gemm> products{product(rows, out, in, x, w, Type::e4m3),
                                   product(in, rows, out, w, dy, Type::e5m2),
                                   product(in, out, rows, x, dy, Type::e5m2)};
  int64_t bytes = 1;
  for (const cuda::Gemm& each : products) bytes = std::max(bytes, cuda::gemm_workspace(each));
  DeviceBytes workspace = room(bytes, 1);
  return microseconds_of(10, [&] {
    for (const cuda::Gemm& each : products) {
      cuda::gemm(each, cuda::stream(), {workspace.data(), static_cast<size_t>(bytes)});
    }
  });
}

TEST_F(EightBits, TakeMicroseconds) {
  for (LayerSizes sizes : {LayerSizes{32768, 1024, 1024},
                           {32768, 1024, 4096},
                           {32768, 4096, 1024},
                           {32768, 768, 768},
                           {32768, 768, 3072},
                           {32768, 3072, 768}}) {
    auto graph = layer_graph(sizes);
    Store store(cuda_device());
    Program program(graph, store);
    double all = microseconds_of(10, [&] { program.launch(); });
    double bare = bare_products(sizes);
    double flops =
        6e-6 * static_cast<double>(sizes.rows * sizes.in) * static_cast<double>(sizes.out);
    std::printf(
        "%6lld x %4lld x %4lld: layer %7.1f us, its products %7.1f us (%4.0f TFLOP/s): %.2f x\n",
        static_cast<long long>(sizes.rows), static_cast<long long>(sizes.in),
        static_cast<long long>(sizes.out), all, bare, flops / bare, all / bare);
  }
}

}  // namespace
}  // namespace sigma1
