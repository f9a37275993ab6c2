// The kernel of interpreted row chains, run on the CPU: what it computes against the CPU's kernels
// of its steps, and whether threads wait for each other, by the thread sanitizer.
#include <gtest/gtest.h>

#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "tests/gpu/on_host/host_row_chain.h"
#include "tests/gpu/row_chain_case.h"

namespace sigma1 {
namespace {

void expect_single_kernels(const RowChainCase& chain, int rows_of_block) {
  SCOPED_TRACE(fmt::format("blocks of {} rows", rows_of_block));
  expect_as_single_kernels(chain, [=](const std::vector<ChainStep>& steps) {
    return std::make_unique<HostRowChain>(steps, rows_of_block);
  });
}

TEST(RowChainOnHost, GoesAsItsSteps) {
  for (auto make : {forward_chain, backward_chain}) {
    expect_single_kernels(make(cpu_device(), {20, 128, 512}), 16);
    expect_single_kernels(make(cpu_device(), {37, 144, 160, "bf16"}), 32);
  }
}

// Rows of several formats, those of 8 bits as fp16 between steps; norms that are wider than a warp.
RowChainCase mixed_chain() {
  RowChainCase c(cpu_device(), 19, "fp16");
  size_t x = c.rows(256), z = c.rows(256, "bf16");
  size_t cast = c.apply(identity_op, {x}, 30, {}, "e4m3");  // saturates here and there
  size_t y = c.apply(linear_op, {cast, c.random({256, 256}), c.random({256}, "e4m3")}, 0.001f);
  size_t normed = c.apply(rms_norm_op, {y, c.random({256}, "fp32")}, 0.75f, {}, "bf16");
  size_t sum = c.apply(weighted_add_op, {normed, x, z}, 1.5f,
                       {{"weights", std::vector<double>{0.5, 0.25, -0.625}}}, "e5m2");
  c.apply(layer_norm_op, {c.apply(gelu_op, {sum}, 1.25f)}, 0.875f);
  return c;
}

TEST(RowChainOnHost, MixesFormats) { expect_single_kernels(mixed_chain(), 16); }

std::string races_in(const RowChainCase& c, int rows_of_block, bool waits = true) {
  auto prepared = c.prepare(std::vector<bool>(c.step_count(), true));
  return races_of(prepared->steps, rows_of_block, waits);
}

// Some kernels leave the sanitizer no room for its own memory.
bool has_sanitizer() {
  RowChainCase c(cpu_device(), 16, "fp16");
  c.apply(relu_op, {c.rows(16)});
  return races_in(c, 16).find("unexpected memory mapping") == std::string::npos;
}

TEST(RowChainOnHost, WaitsForWhatOthersWrite) {
  if (!has_sanitizer()) GTEST_SKIP() << "the thread sanitizer does not run here";
  EXPECT_EQ(races_in(mixed_chain(), 16), "");
  for (int rows_of_block : {16, 32}) {
    SCOPED_TRACE(fmt::format("blocks of {} rows", rows_of_block));
    RowChainSizes sizes{rows_of_block, 128, 512};
    EXPECT_EQ(races_in(forward_chain(cpu_device(), sizes), rows_of_block), "");
    EXPECT_EQ(races_in(backward_chain(cpu_device(), sizes), rows_of_block), "");
  }
}

// So it would be told if they did not.
TEST(RowChainOnHost, IsSeenNotToWait) {
  if (!has_sanitizer()) GTEST_SKIP() << "the thread sanitizer does not run here";
  std::string said = races_in(forward_chain(cpu_device(), {16, 128, 512}), 16, false);
  EXPECT_NE(said.find("data race"), std::string::npos);
}

}  // namespace
}  // namespace sigma1
