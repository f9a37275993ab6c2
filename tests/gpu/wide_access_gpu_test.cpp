// Ops that move rows, and the product with a bias, on the GPU: at sizes that take the kernels' wide
// accesses, and at such that just miss them. Times are printed.
#include <gtest/gtest.h>

#include <cstdio>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/shape.h"
#include "tests/conformance/kernel_checks.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

class CudaWideAccess : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

ConformanceCase case_of(const OpDef& op, std::vector<TensorType> inputs, Attributes attributes) {
  return {"", &op, std::move(inputs), std::move(attributes), {}, {}, {}};
}

ConformanceCase slice_case(Shape x, int64_t axis, int64_t begin, int64_t end) {
  return case_of(slice_op, {{std::move(x)}}, {{"axis", axis}, {"begin", begin}, {"end", end}});
}

ConformanceCase unslice_case(Shape x, int64_t axis, int64_t begin, int64_t total) {
  return case_of(unslice_op, {{std::move(x)}},
                 {{"axis", axis}, {"begin", begin}, {"total", total}});
}

ConformanceCase concat_case(Shape x, Shape y, int64_t axis) {
  return case_of(concat_op, {{std::move(x)}, {std::move(y)}}, {{"axis", axis}});
}

ConformanceCase lookup_case(int64_t rows, int64_t d, int64_t picks) {
  return case_of(embedding_op, {{{rows, d}}, {{picks}, Kind::index}}, {});
}

ConformanceCase linear_case(int64_t m, int64_t n, int64_t k) {
  return case_of(linear_op, {{{m, k}}, {{k, n}}, {{n}}}, {});
}

void expect_everywhere(const ConformanceCase& c) {
  SCOPED_TRACE(fmt::format("{} of {}", c.op->name, to_string(c.inputs[0].shape)));
  Sample sample(c, cuda_device());
  for (const Storage& storage : all_storages()) {
    expect_reference(sample, storage);
    KernelCall call = sample.call(storage);
    EXPECT_EQ(call.run(), call.run()) << storage.name;
  }
}

TEST_F(CudaWideAccess, MoveRows) {
  for (int64_t n : {128, 16, 12, 7}) {
    expect_everywhere(slice_case({3, 20, n}, 1, 2, 19));
    expect_everywhere(slice_case({5, 4 * n}, 1, n, 3 * n));
    expect_everywhere(unslice_case({3, 17, n}, 1, 2, 20));
    expect_everywhere(unslice_case({5, n}, 1, 16, n + 32));
    expect_everywhere(concat_case({3, 1, n}, {3, 20, n}, 1));
    expect_everywhere(concat_case({6, n}, {6, 2 * n}, 1));
    expect_everywhere(lookup_case(50, n, 300));
  }
}

TEST_F(CudaWideAccess, MultiplyTilesThatAreCut) {
  expect_everywhere(linear_case(128, 128, 128));
  expect_everywhere(linear_case(130, 264, 136));
  expect_everywhere(linear_case(3, 8, 8));
  expect_everywhere(linear_case(300, 120, 72));
  expect_everywhere(linear_case(127, 136, 328));
}

TEST_F(CudaWideAccess, ShowTheirTimes) {
  const Storage fp16{"fp16", {"fp16"}, {"fp16"}};
  auto show = [&](const ConformanceCase& c) {
    Sample sample(c, cuda_device());
    double time = microseconds_of(sample.call(fp16), c.attributes);
    std::printf("%s of %s: %.2f us\n", std::string(c.op->name).c_str(),
                to_string(c.inputs[0].shape).c_str(), time);
  };
  show(slice_case({8, 256, 128}, 1, 0, 255));
  show(unslice_case({8, 255, 128}, 1, 0, 256));
  show(concat_case({8, 1, 128}, {8, 255, 128}, 1));
  show(lookup_case(5008, 128, 2048));
  show(linear_case(2048, 5008, 128));
}

}  // namespace
}  // namespace sigma1
