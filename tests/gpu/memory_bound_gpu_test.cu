// Kernels that compute little and move much give what the reference gives in the ways they take at
// the sizes of language models.
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/bundle.cuh"
#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/line_chain.cuh"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "tests/conformance/kernel_checks.h"
#include "tests/gpu/memory_bound_case.h"

namespace sigma1 {
namespace {

class CudaMemoryBound : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

const Storage kNarrow[] = {
    {"fp32", {"fp32"}, {"fp32"}},         {"fp16", {"fp16"}, {"fp16"}},
    {"bf16", {"bf16"}, {"bf16"}},         {"fp16 to e4m3", {"fp16"}, {"e4m3"}},
    {"bf16 to e5m2", {"bf16"}, {"e5m2"}}, {"fp16, w fp32", {"fp16", "fp32"}, {"fp16"}},
    {"e4m3 to fp16", {"e4m3"}, {"fp16"}}};
const std::span<const Storage> kHalves(kNarrow + 1, 2);

void expect_reference_in(std::span<const Storage> storages, const Spec& spec) {
  SCOPED_TRACE(fmt::format("{} of {}", spec.op->name, to_string(spec.inputs[0].shape)));
  ConformanceCase c{"", spec.op, spec.inputs, spec.attributes, {}, {}, {}};
  Sample sample(c, cuda_device());
  for (const Storage& storage : storages) {
    expect_reference(sample, storage);
    expect_same_in_place(sample, storage);
    KernelCall call = sample.call(storage);
    EXPECT_EQ(call.run(), call.run()) << storage.name;
  }
}

TEST_F(CudaMemoryBound, Normalise) {
  for (int64_t n : {264, 512, 768, 770, 1024, 1032, 1600, 2048, 3072, 4096, 4104, 8192, 8200}) {
    int64_t rows = n == 768 || n == 1600 ? 300 : 19;
    expect_reference_in(kNarrow, norm(layer_norm_op, rows, n, true));
    expect_reference_in(kNarrow, norm(rms_norm_op, rows, n, false));
    expect_reference_in(kNarrow, norm_grad(layer_norm_grad_op, rows, n));
    expect_reference_in(kNarrow, norm_grad(rms_norm_grad_op, rows, n));
  }
  // Without weights, and where dx may lie over w.
  expect_reference_in(kHalves, {&layer_norm_op, {{{7, 768}}}, with_eps()});
  expect_reference_in(kHalves, {&layer_norm_grad_op, {{{7, 1600}}, {{7, 1600}}}, with_eps()});
  expect_reference_in(kHalves, {&layer_norm_grad_op, {{{768}}, {{768}}, {{768}}}, with_eps()});
  expect_reference_in(kHalves, {&rms_norm_grad_op, {{{1600}}, {{1600}}, {{1600}}}, with_eps()});
}

TEST_F(CudaMemoryBound, SumGradientsOfNorms) {
  for (int64_t n : {128, 264, 512, 768, 770, 1024, 1600, 3072, 4096, 8192, 8200}) {
    int64_t rows = n == 768 || n == 1600 ? 300 : 37;
    expect_reference_in(kNarrow, weight_grad(layer_norm_weight_grad_op, rows, n, true));
    expect_reference_in(kNarrow, weight_grad(rms_norm_weight_grad_op, rows, n, false));
  }
  // More rows than blocks have at least.
  expect_reference_in(kHalves, weight_grad(layer_norm_weight_grad_op, 7001, 264, true));
  expect_reference_in(kHalves, weight_grad(layer_norm_weight_grad_op, 11000, 1032, true));
}

TEST_F(CudaMemoryBound, SumColumns) {
  expect_reference_in(all_storages(), column_sum(sum_op, {1400, 768}));
  expect_reference_in(all_storages(), column_sum(sum_op, {5, 131, 1600}));
  expect_reference_in(all_storages(), column_sum(mean_op, {700, 1608}));
  expect_reference_in(kHalves, column_sum(sum_op, {300, 50304}));
  expect_reference_in(kHalves, column_sum(sum_op, {140000, 8}));
  expect_reference_in(kHalves, column_sum(sum_op, {1400, 770}));
}

TEST_F(CudaMemoryBound, FindLosses) {
  expect_reference_in(kHalves, loss(softmax_xent_with_grad_op, 300, 50304));
  for (int64_t n : {8192, 8200, 30528, 57344, 57352, 65536, 114688, 114696}) {
    expect_reference_in(kHalves, loss(softmax_xent_with_grad_op, 5, n));
    expect_reference_in(kHalves, loss(softmax_xent_op, 5, n));
  }
  // More rows than blocks.
  expect_reference_in(kHalves, loss(softmax_xent_op, 541, 8208));
  expect_reference_in(kHalves, loss(softmax_xent_with_grad_op, 541, 8208));
  expect_reference_in(kHalves, loss(softmax_xent_with_grad_op, 140, 57360));
  Spec weighted = loss(softmax_xent_grad_op, 270, 9000);
  weighted.inputs.push_back({{270}});
  weighted.inputs.push_back({Shape{}});
  expect_reference_in(kHalves, weighted);
}

TEST_F(CudaMemoryBound, SumPicks) {
  for (const Spec& spec : {picks_grad(6000, 700, 768), picks_grad(5000, 40, 1600),
                           picks_grad(4200, 100, 21), picks_grad(32768, 50304, 24)}) {
    expect_reference_in(all_storages(), spec);
  }
}

TEST_F(CudaMemoryBound, LookUp) {
  const TensorType ids{{6000}, Kind::index};
  expect_reference_in(kNarrow, {&embedding_op, {{{500, 768}}, ids}, {}});
  expect_reference_in(kHalves, {&embedding_op, {{{500, 770}}, ids}, {}});
}

// Of one op and, where there are three terms, of a chain; the second term is repeated.
TEST_F(CudaMemoryBound, MapNumbers) {
  const TensorType x{{2050, 2048}}, row{{2048}}, odd{{2051, 2047}};
  const Attributes p{{"p", 0.3}, {"seed", int64_t{5}}, {"stream", std::string("kept")}};
  expect_reference_in(kNarrow, {&gelu_op, {x}, {}});
  expect_reference_in(kNarrow, {&gelu_grad_op, {x, x}, {}});
  expect_reference_in(kNarrow, {&add_op, {x, row}, {}});
  expect_reference_in(kNarrow, {&add_op, {x, row, x}, {}});
  expect_reference_in(kHalves, {&add_op, {odd, odd, odd}, {}});
  expect_reference_in(kHalves, {&dropout_op, {x}, p});
}

// A bundle keeps its inputs until the end: those of large models are too large for that, and with
// many rows they are summed where the rows are.
TEST(CudaBundleKinds, LeaveOutLargeTensors) {
  auto kind = [](const Spec& spec) {
    ShapedLaunch launch(spec, {"fp16", {"fp16"}, {"fp16"}});
    return cuda::bundle_kind(*spec.op, launch.launch());
  };
  using cuda::BundleKind;
  EXPECT_EQ(kind(column_sum(sum_op, {2048, 5008})), BundleKind::sums);
  EXPECT_EQ(kind(column_sum(sum_op, {4096, 4096})), BundleKind::sums);
  EXPECT_EQ(kind(column_sum(sum_op, {4096, 4097})), BundleKind::none);
  EXPECT_EQ(kind(column_sum(sum_op, {32768, 128})), BundleKind::none);
  auto norm_kind = [&](int64_t rows, int64_t n) {
    return kind(weight_grad(layer_norm_weight_grad_op, rows, n, true));
  };
  EXPECT_EQ(norm_kind(2048, 128), BundleKind::norm_weight_gradients);
  EXPECT_EQ(norm_kind(cuda::kFewRows, 128), BundleKind::norm_weight_gradients);
  EXPECT_EQ(norm_kind(cuda::kFewRows + 1, 128), BundleKind::none);
}

}  // namespace
}  // namespace sigma1
