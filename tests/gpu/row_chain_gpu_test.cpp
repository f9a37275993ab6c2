// Row chains against the single kernels of their steps, step by step, and against themselves when
// inner values are not stored.
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/row_chain.cuh"
#include "sigma1/base/error.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "tests/gpu/row_chain_case.h"

namespace sigma1 {
namespace {

class CudaRowChain : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

RowChainCase::Make blocks_of(int rows) {
  return [=](const std::vector<ChainStep>& steps) {
    return std::make_unique<cuda::RowChain>(steps, rows);
  };
}

void expect_single_kernels(const RowChainCase& chain) {
  auto prepared = chain.prepare(std::vector<bool>(chain.step_count()));
  for (int rows_of_block : {16, 32}) {
    if (!cuda::fits_rows(prepared->steps, rows_of_block)) continue;
    SCOPED_TRACE(fmt::format("blocks of {} rows", rows_of_block));
    expect_as_single_kernels(chain, blocks_of(rows_of_block));
  }
}

TEST_F(CudaRowChain, GoesForwardAsItsSteps) {
  for_many_sizes(cuda_device(), forward_chain, expect_single_kernels);
}

TEST_F(CudaRowChain, GoesBackwardAsItsSteps) {
  for_many_sizes(cuda_device(), backward_chain, expect_single_kernels);
}

// On all multiprocessors at once weights arrive as late as can be, and again while others are still
// read: whoever does not wait for them fails here, now and then.
TEST_F(CudaRowChain, ServesManyRows) {
  RowChainSizes sizes{2048, 128, 512};
  for (const auto& chain :
       {forward_chain(cuda_device(), sizes), backward_chain(cuda_device(), sizes)}) {
    expect_single_kernels(chain);
    const std::vector<bool> all(chain.step_count(), true);
    for (int rows_of_block : {16, 32}) {
      auto contents = chain.run(all, blocks_of(rows_of_block));
      for (int i = 0; i < 20; ++i) expect_the_same(chain, all, blocks_of(rows_of_block), contents);
    }
  }
}

// No products, tensors read twice, sums of several terms, results in place of inputs.
TEST_F(CudaRowChain, RunsNormsAndPointwiseOps) {
  RowChainCase c(cuda_device(), 21, "bf16");
  size_t x = c.rows(80), z = c.rows(80, "fp16");
  size_t normed = c.apply(rms_norm_op, {x, c.random({80}, "fp32")}, 0.75f);
  size_t active = c.apply(gelu_op, {normed}, 1.25f, {}, "fp16");
  size_t sum = c.apply(weighted_add_op, {active, x, z}, 1.5f,
                       {{"weights", std::vector<double>{0.5, 0.25, -0.625}}});
  size_t plain = c.apply(layer_norm_op, {sum}, 0.875f);
  size_t product = c.apply(mul_op, {plain, active}, 0.75f);
  size_t added = c.apply(add_op, {product, x, sum}, 0.75f);
  size_t back = c.apply(rms_norm_grad_op, {added, c.random({80}), product}, 0.75f,
                        {{"eps", 1e-5}, {"has_bias", false}});
  size_t slope = c.apply(gelu_grad_op, {back, z}, 0.75f, {}, "fp16");
  c.apply(scale_op, {slope}, 0.75f, {{"factor", 3.5}});
  expect_single_kernels(c);
}

// A sum that could take the place of what is still multiplied, and one whose last term is at hand.
TEST_F(CudaRowChain, AddsProductsToTheirInputs) {
  RowChainCase c(cuda_device(), 20, "fp16");
  size_t x = c.apply(relu_op, {c.rows(256)});
  size_t sum = c.apply(add_op, {x, c.apply(matmul_op, {x, c.random({256, 256})}, 0.0625f)}, 0.75f);
  size_t product = c.apply(matmul_op, {sum, c.random({256, 256})}, 0.0625f);
  c.apply(add_op, {sum, c.rows(256), product}, 0.75f);
  expect_single_kernels(c);
}

// An 8-bit format is held as fp16 between steps: every product reads what was stored.
TEST_F(CudaRowChain, CastsToEightBits) {
  RowChainCase c(cuda_device(), 19, "fp16");
  size_t x = c.rows(64), loaded = c.rows(64, "e5m2");
  size_t cast = c.apply(identity_op, {x}, 300, {}, "e4m3");  // saturates here and there
  size_t y = c.apply(linear_op, {cast, c.random({64, 32}), c.random({32}, "e4m3")}, 0.001f);
  size_t z = c.apply(matmul_op, {loaded, c.random({64, 32})}, 0.125f, {}, "e5m2");
  c.apply(add_op, {y, z}, 0.75f, {}, "e4m3");
  expect_single_kernels(c);
}

TEST_F(CudaRowChain, TakesWhatItsKernelCanDo) {
  auto is_local = [](RowChainCase& c) {
    auto prepared = c.prepare(std::vector<bool>(c.step_count(), false));
    const ChainStep& last = prepared->steps.back();
    return cuda::is_row_local(*last.op, last.launch);
  };
  auto is_product_local = [&](int64_t m, int64_t n, const char* x, const char* w) {
    RowChainCase c(cuda_device(), 4, "fp16");
    c.apply(matmul_op, {c.rows(m, x), c.random({m, n}, w)});
    return is_local(c);
  };
  EXPECT_TRUE(is_product_local(64, 1024, "fp16", "fp16"));
  EXPECT_TRUE(is_product_local(64, 16, "e4m3", "fp16"));
  EXPECT_TRUE(is_product_local(64, 16, "bf16", "bf16"));
  EXPECT_FALSE(is_product_local(64, 16, "bf16", "fp16"));
  EXPECT_FALSE(is_product_local(64, 16, "fp16", "e4m3"));
  EXPECT_FALSE(is_product_local(64, 16, "fp32", "fp32"));
  EXPECT_FALSE(is_product_local(64, 24, "fp16", "fp16"));
  EXPECT_FALSE(is_product_local(64, 1040, "fp16", "fp16"));
  RowChainCase left(cuda_device(), 32, "fp16");
  left.apply(matmul_op, {left.rows(32), left.random({32, 32})}, 1, {{"transpose_left", true}});
  EXPECT_FALSE(is_local(left));
  RowChainCase shorter(cuda_device(), 4, "fp16");
  shorter.apply(add_op, {shorter.rows(32), shorter.random({32})});
  EXPECT_FALSE(is_local(shorter));
}

TEST_F(CudaRowChain, FitsWhatSharedMemoryHolds) {
  auto fits = [](const RowChainCase& c, int rows_of_block = 16) {
    auto prepared = c.prepare(std::vector<bool>(c.step_count(), false));
    return cuda::fits_rows(prepared->steps, rows_of_block);
  };
  for (int rows_of_block : {16, 32}) {
    EXPECT_TRUE(fits(forward_chain(cuda_device(), {2048, 128, 512}), rows_of_block));
    EXPECT_TRUE(fits(backward_chain(cuda_device(), {2048, 128, 512}), rows_of_block));
  }
  // Results that others take the place of need no room.
  RowChainCase narrow(cuda_device(), 16, "fp16"), wide(cuda_device(), 16, "fp16");
  size_t x = narrow.rows(1024);
  for (int i = 0; i < 10; ++i) x = narrow.apply(relu_op, {x});
  EXPECT_TRUE(fits(narrow));
  std::vector<size_t> terms;
  for (int i = 0; i < 6; ++i) terms.push_back(wide.rows(1024));
  wide.apply(add_op, terms);
  EXPECT_FALSE(fits(wide));
  EXPECT_THROW(wide.run({true}, blocks_of(16)), Bug);
  // Weights that the chain computes cannot be streamed.
  RowChainCase own(cuda_device(), 32, "fp16");
  size_t square = own.apply(relu_op, {own.rows(32)});
  own.apply(matmul_op, {own.rows(32), square});
  EXPECT_FALSE(fits(own));
}

}  // namespace
}  // namespace sigma1
