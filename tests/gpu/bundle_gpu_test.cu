// Bundles against the ops' references, and Adam's steps against the kernel of one: whatever sizes
// and formats they mix, every node's results are there, the same at every run. Times are printed.
#include <gtest/gtest.h>

#include "sigma1/ops/linear.h"
#include "sigma1/ops/reduce.h"
#include "tests/gpu/bundle_checks.h"

namespace sigma1 {
namespace {

void expect_references(const std::deque<GpuNode>& nodes, BundleKind kind) {
  Bundle bundle(steps_of(nodes, kind));
  bundle.run(3);
  size_t index = 0;
  for (const GpuNode& node : nodes) {
    const DeviceTensor& out = node.outputs().front();
    std::string what = "node " + std::to_string(index++) + " " + to_string(node.spec().shapes[0]);
    expect_near(out.numbers(), node.reference(), node.reference(true), rounding_of(out.buffer()),
                what);
  }
  Bytes first = outputs_of(nodes);
  bundle.run(3);
  EXPECT_EQ(outputs_of(nodes), first);
}

NodeSpec product(std::vector<Shape> shapes, bool left, Formats inputs, Formats outputs) {
  return {&matmul_op,
          std::move(shapes),
          {{"transpose_left", left}, {"transpose_right", false}},
          std::move(inputs),
          std::move(outputs)};
}

// x[rows, m]ᵀ · dy[rows, n]
NodeSpec weight_gradient(int64_t rows, int64_t m, int64_t n, Formats inputs, Formats outputs) {
  return product({{rows, m}, {rows, n}}, true, std::move(inputs), std::move(outputs));
}

TEST_F(CudaBundles, MultiplyAnySizesInAnyFormats) {
  std::deque<GpuNode> nodes;
  nodes.emplace_back(weight_gradient(1000, 128, 128, {"fp16"}, {"fp16"}), 1);
  nodes.emplace_back(weight_gradient(40, 72, 136, {"fp16"}, {"fp32"}), 2);
  nodes.emplace_back(weight_gradient(264, 512, 128, {"bf16"}, {"bf16"}), 3);
  nodes.emplace_back(weight_gradient(8, 8, 8, {"fp16"}, {"fp32"}), 4);
  nodes.emplace_back(weight_gradient(72, 24, 40, {"e4m3", "e5m2"}, {"fp16"}), 5);
  nodes.emplace_back(weight_gradient(2048, 128, 512, {"fp16", "e4m3"}, {"bf16"}), 6);
  nodes.emplace_back(product({{256, 128}, {128, 128}}, false, {"fp16"}, {"fp16"}), 7);
  nodes.emplace_back(product({{136, 72}, {72, 40}}, false, {"bf16"}, {"fp32"}), 8);
  nodes.emplace_back(product({{2, 68, 200}, {200, 24}}, false, {"e5m2", "fp16"}, {"fp32"}), 9);
  expect_references(nodes, BundleKind::products);
}

TEST_F(CudaBundles, LeaveOtherProductsAlone) {
  auto kind = [](const NodeSpec& spec) { return kind_of(GpuNode(spec)); };
  EXPECT_EQ(kind(weight_gradient(64, 64, 64, {"fp32"}, {"fp32"})), BundleKind::none);
  EXPECT_EQ(kind(weight_gradient(64, 64, 64, {"fp16", "bf16"}, {"fp32"})), BundleKind::none);
  EXPECT_EQ(kind(weight_gradient(64, 60, 64, {"fp16"}, {"fp16"})), BundleKind::none);
  EXPECT_EQ(kind(weight_gradient(8, 1024, 1024, {"fp16"}, {"fp16"})), BundleKind::none);
  Shape batch{2, 64, 64};
  EXPECT_EQ(kind(product({batch, batch}, true, {"fp16"}, {"fp16"})), BundleKind::none);
  NodeSpec right = weight_gradient(64, 64, 64, {"fp16"}, {"fp16"});
  right.attributes.set("transpose_right", true);
  EXPECT_EQ(kind(right), BundleKind::none);
}

NodeSpec sum_spec(Shape shape, std::vector<int64_t> axes, Formats inputs, Formats outputs) {
  return {&sum_op,
          {std::move(shape)},
          {{"axes", std::move(axes)}},
          std::move(inputs),
          std::move(outputs)};
}

TEST_F(CudaBundles, SumAnySizesInAnyFormats) {
  std::deque<GpuNode> nodes;
  nodes.emplace_back(sum_spec({2048, 128}, {0}, {"fp16"}, {"fp16"}), 1);
  nodes.emplace_back(sum_spec({8, 30, 512}, {0, 1}, {"fp16"}, {"fp32"}), 2);
  nodes.emplace_back(sum_spec({7, 3, 5}, {-2, 0}, {"fp32"}, {"bf16"}), 3);
  nodes.emplace_back(sum_spec({1000, 130}, {0}, {"bf16"}, {"bf16"}), 4);
  nodes.emplace_back(sum_spec({33, 4}, {0}, {"e4m3"}, {"fp16"}), 5);
  nodes.emplace_back(sum_spec({1, 6}, {0}, {"e5m2"}, {"fp32"}), 6);
  nodes.emplace_back(sum_spec({4000, 1}, {0}, {"fp16"}, {"fp32"}), 7);
  nodes.emplace_back(sum_spec({65, 260}, {0}, {"fp32"}, {"fp32"}), 8);
  expect_references(nodes, BundleKind::sums);
  EXPECT_EQ(kind_of(GpuNode(sum_spec({4, 8}, {1}, {"fp16"}, {"fp16"}))), BundleKind::none);
  EXPECT_EQ(kind_of(GpuNode(sum_spec({4, 8}, {0, 1}, {"fp16"}, {"fp16"}))), BundleKind::none);
  EXPECT_EQ(kind_of(GpuNode(sum_spec({4, 8, 8}, {0}, {"fp16"}, {"fp16"}))), BundleKind::none);
  EXPECT_EQ(kind_of(GpuNode(sum_spec({5000, 8}, {0}, {"fp16"}, {"fp16"}))), BundleKind::none);
}

TEST_F(CudaBundles, StepAsAdamAlone) {
  std::deque<GpuNode> nodes;
  nodes.emplace_back(adam_spec({128, 512}, {"fp16", "fp16", "fp32"}, {"fp16"}), 1);
  nodes.emplace_back(adam_spec({1}, {"fp32"}, {"fp32"}), 2);
  nodes.emplace_back(adam_spec({3}, {"bf16"}, {"bf16"}, Rounding::stochastic), 3);
  nodes.emplace_back(adam_spec({4097}, {"fp16", "fp16", "fp32"}, {"fp16", "fp32"}), 4);
  nodes.emplace_back(
      adam_spec({130, 171}, {"fp16", "fp16", "fp32"}, {"fp16", "fp32"}, Rounding::stochastic), 5);
  nodes.emplace_back(
      adam_spec({77, 9}, {"fp16", "e5m2", "fp32"}, {"e4m3"}, Rounding::stochastic, false), 6);
  // Plain ones, which have kernels of their own.
  for (Rounding rounding : {Rounding::nearest_even, Rounding::stochastic}) {
    for (const char* weights : {"fp16", "bf16", "fp32"}) {
      Formats inputs{weights, weights, "fp32"}, outputs{weights, "fp32"};
      nodes.emplace_back(adam_spec({130, 172}, inputs, outputs, rounding), nodes.size());
      NodeSpec short_mean = adam_spec({130, 172}, {weights, weights, weights, "fp32"},
                                      {weights, weights, "fp32"}, rounding);
      short_mean.roundings.push_back(Rounding::nearest_even);
      nodes.emplace_back(short_mean, nodes.size());
    }
  }
  expect_as_alone(nodes, BundleKind::adam_steps);
}

TEST_F(CudaBundles, RefuseToMixKinds) {
  GpuNode a(sum_spec({4, 8}, {0}, {"fp16"}, {"fp16"})), b(adam_spec({8}, {"fp32"}, {"fp32"}));
  EXPECT_THROW(Bundle({a.step(), b.step()}), Bug);
  EXPECT_THROW(Bundle({}), Bug);
}

// A small language model's: eight layers of width 128 with 2048 rows.
TEST_F(CudaBundles, ShowTheirTimes) {
  std::deque<GpuNode> products, sums, steps;
  for (int layer = 0; layer < 8; ++layer) {
    for (int i = 0; i < 4; ++i) {
      products.emplace_back(weight_gradient(2048, 128, 128, {"fp16"}, {"fp16"}));
      sums.emplace_back(sum_spec({2048, i == 0 ? 512 : 128}, {0}, {"fp16"}, {"fp16"}));
    }
    products.emplace_back(weight_gradient(2048, 128, 512, {"fp16"}, {"fp16"}));
    products.emplace_back(weight_gradient(2048, 512, 128, {"fp16"}, {"fp16"}));
  }
  for (int n : {128, 5008}) sums.emplace_back(sum_spec({2048, n}, {0}, {"fp16"}, {"fp16"}));
  for (int i = 0; i < 110; ++i) {
    Shape shape = i < 2 ? Shape{5008, 128} : i < 98 ? Shape{128, 128} : Shape{128};
    steps.emplace_back(
        adam_spec(shape, {"fp16", "fp16", "fp32"}, {"fp16", "fp32"}, Rounding::stochastic));
  }
  Bundle of_products(steps_of(products, BundleKind::products));
  Bundle of_sums(steps_of(sums, BundleKind::sums));
  Bundle of_steps(steps_of(steps, BundleKind::adam_steps));
  print_time("48 products of 2048 rows", of_products);
  print_time("34 sums of 2048 rows, 12432 columns", of_sums);
  print_time("110 adam steps of 2.9 M numbers", of_steps);
}

}  // namespace
}  // namespace sigma1
