// The sources of cluster chains, run on the CPU: what they compute against the CPU's kernels of
// their steps, and whether threads wait for each other, by the thread sanitizer. What is on its way
// comes as late as a GPU may bring it.
#include <gtest/gtest.h>

#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "tests/gpu/on_host/host_chain.h"
#include "tests/gpu/row_chain_case.h"

namespace sigma1 {
namespace {

using cuda::ClusterShape;

void expect_single_kernels(const RowChainCase& chain, const ClusterShape& shape) {
  SCOPED_TRACE(fmt::format("{} rows to {} blocks", shape.rows, shape.ranks));
  expect_as_single_kernels(chain, [=](const std::vector<ChainStep>& steps) {
    return std::make_unique<HostChain>(steps, shape);
  });
}

// The default shape for many rows, all of a model's own sizes.
TEST(ClusterChainOnHost, GoesAsItsStepsInClustersOfTwo) {
  RowChainSizes sizes{40, 128, 512};
  expect_single_kernels(forward_chain(cpu_device(), sizes), {32, 2});
  expect_single_kernels(backward_chain(cpu_device(), sizes), {32, 2});
}

TEST(ClusterChainOnHost, GoesAsItsStepsInClustersOfFour) {
  expect_single_kernels(forward_chain(cpu_device(), {20, 128, 512, "bf16"}), {16, 4});
  expect_single_kernels(backward_chain(cpu_device(), {20, 128, 512, "bf16"}), {16, 4});
  expect_single_kernels(forward_chain(cpu_device(), {40, 48, 80}), {32, 4});
  expect_single_kernels(backward_chain(cpu_device(), {37, 144, 160}), {48, 4});
}

TEST(ClusterChainOnHost, GoesAsItsStepsInClustersOfEight) {
  expect_single_kernels(backward_chain(cpu_device(), {20, 112, 336}), {32, 8});
}

// Several clusters to a sample, and several samples.
TEST(ClusterChainOnHost, BeginsWithAttention) {
  expect_single_kernels(attention_chain(cpu_device(), {64, 128, 512, "fp16", 64}), {32, 2});
  expect_single_kernels(attention_chain(cpu_device(), {64, 64, 80, "bf16", 32, 4}), {16, 4});
}

TEST(ClusterChainOnHost, BeginsWithConvolution) {
  for (auto make : {conv_chain, conv_grad_chain}) {
    expect_single_kernels(make(cpu_device(), {64, 128, 512, "fp16", 32}), {32, 2});
    expect_single_kernels(make(cpu_device(), {32, 256, 128, "bf16", 16}), {16, 4});
  }
}

std::string text_of(const RowChainCase& c, const ClusterShape& shape) {
  auto prepared = c.prepare(std::vector<bool>(c.step_count(), true));
  return cuda::cluster_source(prepared->steps, shape)->text;
}

// Some kernels leave the sanitizer no room for its own memory.
bool has_sanitizer() {
  RowChainCase c(cpu_device(), 16, "fp16");
  c.apply(relu_op, {c.rows(16)});
  return races_of(text_of(c, {16, 4})).find("unexpected memory mapping") == std::string::npos;
}

TEST(ClusterChainOnHost, WaitsForWhatOthersWrite) {
  if (!has_sanitizer()) GTEST_SKIP() << "the thread sanitizer does not run here";
  RowChainSizes sizes{32, 128, 512};
  for (ClusterShape shape : {ClusterShape{32, 2}, ClusterShape{16, 4}}) {
    SCOPED_TRACE(fmt::format("{} rows to {} blocks", shape.rows, shape.ranks));
    EXPECT_EQ(races_of(text_of(forward_chain(cpu_device(), sizes), shape)), "");
    EXPECT_EQ(races_of(text_of(backward_chain(cpu_device(), sizes), shape)), "");
    RowChainSizes of_samples{64, 128, 512, "fp16", 64, shape.ranks};
    for (auto make : {attention_chain, conv_chain, conv_grad_chain}) {
      EXPECT_EQ(races_of(text_of(make(cpu_device(), of_samples), shape)), "");
    }
  }
}

// So it would be told if they did not.
TEST(ClusterChainOnHost, IsSeenNotToWait) {
  if (!has_sanitizer()) GTEST_SKIP() << "the thread sanitizer does not run here";
  std::string text = text_of(forward_chain(cpu_device(), {16, 128, 512}), {16, 4});
  const std::string wait = "  __syncthreads();\n  auto terms";
  size_t at = text.find(wait, text.find("Columns<512>"));
  ASSERT_NE(at, std::string::npos);
  text.erase(at, wait.find("  auto"));
  EXPECT_NE(races_of(text).find("data race"), std::string::npos);
}

// A block whose sums another reads last may not leave before they have come.
TEST(ClusterChainOnHost, IsSeenToLeaveWhileOthersRead) {
  if (!has_sanitizer()) GTEST_SKIP() << "the thread sanitizer does not run here";
  RowChainCase c(cpu_device(), 32, "fp16");
  size_t wide = c.apply(matmul_op, {c.rows(64), c.random({64, 256})}, 0.125f);
  c.apply(matmul_op, {c.apply(relu_op, {wide}), c.random({256, 64})}, 0.0625f);
  std::string text = text_of(c, {32, 2}), strong = "be_done_reading_others();";
  EXPECT_EQ(races_of(text), "");
  ASSERT_NE(text.find(strong), std::string::npos);
  text.replace(text.find(strong), strong.size(), "be_done_with_others();");
  EXPECT_NE(races_of(text).find("may leave while another reads"), std::string::npos);
}

TEST(ClusterChainOnHost, MultipliesWhateverIsComputed) {
  for (int64_t width : {80, 256}) {
    SCOPED_TRACE(width);
    expect_single_kernels(crossing_products(cpu_device(), width), {16, 2});
  }
}

}  // namespace
}  // namespace sigma1
