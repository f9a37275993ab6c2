// What a layer of 8-bit products costs beside the bare products: by itself, with a cast of each
// factor, and in a model, where whoever computes a factor writes it in 8 bits. Times are printed.
#include <gtest/gtest.h>

#include <cstdio>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/gemm.cuh"
#include "sigma1/backend/cuda/grouping.cuh"
#include "sigma1/runtime/product_floor.h"
#include "tests/gpu/block_layer_case.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

// A graph whose inputs are normal numbers.
struct Runnable {
  Store store;
  Program program;

  Runnable(const std::shared_ptr<Graph>& graph, const Device& device)
      : store(device), program(graph, store) {
    for (const Node& node : graph->nodes()) {
      if (node.inputs.empty()) write_normal_numbers(store, node.name);
    }
  }
};

double time_of(const std::shared_ptr<Graph>& graph) {
  Runnable run(graph, cuda_device());
  return microseconds_of(10, [&] { run.program.launch(); });
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

double time_in_model(const BlockSizes& block, BlockLayer layer, bool has_products) {
  return time_of(BlockLayerGraph(block, layer, has_products).graph());
}

const BlockSizes kBlocks[] = {{"GPT-2 124M", 32, 1024, 768, 12, true},
                              {"BERT LARGE", 256, 128, 1024, 16, false}};

TEST(EightBitsTime, IsPrinted) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const BlockSizes& block : kBlocks) {
    double all_bare = 0, all_in_model = 0;
    for (BlockLayer layer : kBlockLayers) {
      LayerSizes sizes = sizes_of(block, layer);
      double bare = bare_products(sizes), alone = time_of(layer_graph(sizes));
      double others = time_in_model(block, layer, false);
      double in_model = time_in_model(block, layer, true) - others;
      double flops =
          6e-6 * static_cast<double>(sizes.rows * sizes.in) * static_cast<double>(sizes.out);
      std::printf(
          "%s, %lld x %4lld x %4lld: products %6.1f us (%4.0f TFLOP/s), layer alone %6.1f us "
          "(%.2f x), in a model %6.1f us (%.2f x) more than the %6.1f us of who computes its "
          "factors in fp16\n",
          block.name, static_cast<long long>(sizes.rows), static_cast<long long>(sizes.in),
          static_cast<long long>(sizes.out), bare, flops / bare, alone, alone / bare, in_model,
          in_model / bare, others);
      all_bare += bare, all_in_model += in_model;
    }
    std::printf("%s, all layers of a block: products %6.1f us, in a model %6.1f us (%.2f x)\n",
                block.name, all_bare, all_in_model, all_in_model / all_bare);
  }
}

const FloatFormat& format_of(const Graph& graph, Value value) {
  return graph.node(value.node).storage[static_cast<size_t>(value.output)].format;
}

// What is timed is what a step runs: factors have 8 bits, gradients of attention write their codes
// themselves, and whoever computes a factor casts it. Needs no GPU.
TEST(EightBitsTime, TimesWhatAStepRuns) {
  for (const BlockSizes& block : kBlocks) {
    for (BlockLayer layer : kBlockLayers) {
      BlockLayerGraph made(block, layer, true);
      const Graph& graph = *made.graph();
      int joined = 0, casts_alone = 0;
      for (const Node& node : graph.nodes()) {
        if (node.op != &matmul_op) continue;
        for (Value factor : node.inputs) EXPECT_EQ(format_of(graph, factor).bits(), 8);
      }
      for (const NodeGroup& group : group_nodes(graph, cuda::grouping(graph, {}))) {
        if (group.kind == NodeGroup::Kind::joined) ++joined;
        const Node& last = graph.node(group.nodes.back());
        if (group.nodes.size() == 1 && last.op == &identity_op) ++casts_alone;
      }
      EXPECT_EQ(joined, layer == BlockLayer::attended ? 1 : 0);
      EXPECT_EQ(casts_alone, 0);
    }
  }
  for (BlockLayer layer : kBlockLayers) {
    for (bool has_products : {false, true}) {
      auto graph = BlockLayerGraph({"small", 2, 16, 64, 2, true}, layer, has_products).graph();
      EXPECT_NO_THROW(Runnable(graph, cpu_device()).program.run(0));
    }
  }
}

}  // namespace
}  // namespace sigma1
