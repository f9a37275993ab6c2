// Holds every CUDA kernel to its op's reference, in every format and in place, as CPU kernels are.
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/base/error.h"
#include "tests/conformance/kernel_checks.h"

namespace sigma1 {
namespace {

class CudaKernels : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
  Sample sample() const { return Sample(all_cases()[GetParam()], cuda_device()); }
};

TEST_P(CudaKernels, GiveWhatTheReferenceGives) {
  for (const Storage& storage : all_storages()) expect_reference(sample(), storage);
}

TEST_P(CudaKernels, GiveTheSameInPlaceAndAgain) {
  for (const Storage& storage : all_storages()) {
    Sample each = sample();
    expect_same_in_place(each, storage);
    KernelCall call = each.call(storage);
    EXPECT_EQ(call.run(), call.run()) << storage.name;
  }
}

// Weights are rounded so, by the optimiser's steps; of the others some say that they do not.
TEST_P(CudaKernels, RoundByTheSameRandomBitsOrRefuse) {
  try {
    expect_own_random_bits(sample());
  } catch (const Error& error) {
    EXPECT_FALSE(all_cases()[GetParam()].op->name.ends_with("_step")) << error.what();
    EXPECT_NE(std::string(error.what()).find("to nearest only"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaKernels, testing::Range(size_t{0}, all_cases().size()),
                         [](const auto& each) {
                           return case_name(all_cases()[each.param], each.param);
                         });

}  // namespace
}  // namespace sigma1
