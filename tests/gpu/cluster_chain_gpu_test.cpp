// Cluster chains against the single kernels of their steps. What their sources are is also checked
// where there is no GPU: they are compiled for one.
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/cluster_chain.cuh"
#include "sigma1/backend/cuda/cluster_places.cuh"
#include "sigma1/backend/cuda/compile.cuh"
#include "sigma1/backend/cuda/device.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "tests/gpu/row_chain_case.h"

namespace sigma1 {
namespace {

using cuda::ClusterShape;

const ClusterShape kShapes[] = {{16, 4}, {48, 4}, {32, 8}, {32, 2}},
                   kTallShapes[] = {{64, 4}, {80, 4}, {64, 8}, {32, 2}};

std::optional<cuda::ClusterSource> source_of(const RowChainCase& c, const ClusterShape& shape) {
  auto prepared = c.prepare(std::vector<bool>(c.step_count(), true));
  return cuda::cluster_source(prepared->steps, shape);
}

TEST(ClusterSource, FitsAndCompiles) {
  for (ClusterShape shape :
       {ClusterShape{16, 4}, ClusterShape{80, 4}, ClusterShape{64, 8}, ClusterShape{32, 2}}) {
    RowChainSizes sizes{2048, 128, 512};
    for (const auto& c :
         {forward_chain(cpu_device(), sizes), backward_chain(cpu_device(), sizes)}) {
      auto source = source_of(c, shape);
      ASSERT_TRUE(source);
      EXPECT_FALSE(cuda::machine_code(source->text).empty());
    }
  }
}

// A model's own sizes.
TEST(ClusterSource, TakesWholeLayers) {
  RowChainSizes sizes{2048, 128, 512, "fp16", 256};
  for (auto make : {attention_chain, conv_chain, conv_grad_chain}) {
    auto source = source_of(make(cpu_device(), sizes), {32, 2});
    ASSERT_TRUE(source);
    EXPECT_FALSE(cuda::machine_code(source->text).empty());
  }
}

// What is there in the same phase has bytes of its own, and what is never there together shares
// some.
TEST(ClusterPlaces, AreTakenByOneThingAtATime) {
  RandomStream random(3, "cluster places", 0);
  std::vector<cuda::PhasePlace> places;
  int all = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    auto number = [&](uint64_t k, uint32_t below) {
      return static_cast<int>(random.bits(3 * i + k) % below);
    };
    int first = number(0, 6), bytes = 16 * (1 + number(1, 100));
    places.push_back({bytes, first, first + number(2, 3), 0});
    all += bytes;
  }
  int room = cuda::set_offsets(places);
  EXPECT_LT(room, all);
  for (const cuda::PhasePlace& a : places) {
    EXPECT_LE(a.offset + a.bytes, room);
    for (const cuda::PhasePlace& b : places) {
      bool meet = a.first <= b.last && b.first <= a.last;
      bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_TRUE(&a == &b || !meet || !overlap);
    }
  }
}

// Layers of a model differ in addresses and factors alone.
TEST(ClusterSource, IsTheSameForLayersThatAreAlike) {
  auto text_for = [](float factor, int64_t width) {
    RowChainCase c(cpu_device(), 40, "fp16");
    c.apply(relu_op, {c.apply(matmul_op, {c.rows(width), c.random({width, 64})}, factor)});
    return source_of(c, {16, 4})->text;
  };
  EXPECT_EQ(text_for(0.5f, 32), text_for(0.25f, 32));
  EXPECT_NE(text_for(0.5f, 32), text_for(0.5f, 48));
}

TEST(ClusterSource, LeavesOutWhatDoesNotFit) {
  RowChainCase mixed(cpu_device(), 16, "fp16");
  mixed.apply(add_op, {mixed.rows(64), mixed.rows(64, "bf16")});
  EXPECT_FALSE(source_of(mixed, {16, 4}));
  RowChainCase large(cpu_device(), 16, "fp16");
  large.apply(matmul_op, {large.rows(1024), large.random({1024, 1024})});
  EXPECT_FALSE(source_of(large, {16, 4}));
  EXPECT_THROW(cuda::ClusterChain(large.prepare({true})->steps, {16, 4}), Bug);
  RowChainCase own(cpu_device(), 32, "fp16");
  own.apply(matmul_op, {own.rows(32), own.apply(relu_op, {own.rows(32)})});
  EXPECT_FALSE(source_of(own, {16, 4}));
}

TEST(ClusterSource, HasNoEmptyArrays) {
  RowChainCase c(cpu_device(), 40, "fp16");
  c.apply(mul_op, {c.rows(32), c.rows(32)});
  EXPECT_EQ(source_of(c, {16, 4})->factors.size(), 1);
}

class CudaClusterChain : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

RowChainCase::Make clusters_of(const ClusterShape& shape) {
  return [=](const std::vector<ChainStep>& steps) {
    return std::make_unique<cuda::ClusterChain>(steps, shape);
  };
}

void expect_single_kernels(const RowChainCase& chain) {
  int tried = 0;
  for (const ClusterShape& shape : kShapes) {
    if (!source_of(chain, shape)) continue;
    SCOPED_TRACE(fmt::format("{} rows to {} blocks", shape.rows, shape.ranks));
    expect_as_single_kernels(chain, clusters_of(shape));
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

TEST_F(CudaClusterChain, GoesForwardAsItsSteps) {
  for_many_sizes(cuda_device(), forward_chain, expect_single_kernels);
}

TEST_F(CudaClusterChain, GoesBackwardAsItsSteps) {
  for_many_sizes(cuda_device(), backward_chain, expect_single_kernels);
}

// On all multiprocessors at once blocks of a cluster are furthest apart: whoever does not wait for
// another fails here, now and then.
TEST_F(CudaClusterChain, ServesManyRows) {
  RowChainSizes sizes{2048, 128, 512};
  for (const auto& chain :
       {forward_chain(cuda_device(), sizes), backward_chain(cuda_device(), sizes)}) {
    const std::vector<bool> all(chain.step_count(), true);
    for (const ClusterShape& shape : kTallShapes) {
      SCOPED_TRACE(fmt::format("{} rows to {} blocks", shape.rows, shape.ranks));
      auto contents = chain.run(all, clusters_of(shape));
      for (int i = 0; i < 20; ++i) expect_the_same(chain, all, clusters_of(shape), contents);
    }
  }
}

// No products, tensors read twice, sums of several terms.
TEST_F(CudaClusterChain, RunsNormsAndPointwiseOps) {
  RowChainCase c(cuda_device(), 21, "bf16");
  size_t x = c.rows(80), z = c.rows(80);
  size_t normed = c.apply(rms_norm_op, {x, c.random({80}, "fp32")}, 0.75f);
  size_t active = c.apply(gelu_op, {normed}, 1.25f);
  size_t sum = c.apply(weighted_add_op, {active, x, z}, 1.5f,
                       {{"weights", std::vector<double>{0.5, 0.25, -0.625}}});
  size_t plain = c.apply(layer_norm_op, {sum}, 0.875f);
  size_t product = c.apply(mul_op, {plain, active}, 0.75f);
  size_t added = c.apply(add_op, {product, x, sum}, 0.75f);
  size_t back = c.apply(rms_norm_grad_op, {added, c.random({80}), product}, 0.75f,
                        {{"eps", 1e-5}, {"has_bias", false}});
  size_t slope = c.apply(gelu_grad_op, {back, z}, 0.75f);
  c.apply(scale_op, {slope}, 0.75f, {{"factor", 3.5}});
  expect_single_kernels(c);
}

TEST_F(CudaClusterChain, MultipliesWhateverIsComputed) {
  for (int64_t width : {64, 80, 256}) {
    SCOPED_TRACE(width);
    expect_single_kernels(crossing_products(cuda_device(), width));
  }
}

}  // namespace
}  // namespace sigma1
