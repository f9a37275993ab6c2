#include "sigma1/backend/cpu/kernel_table.h"
#include "tests/backend/check_kernel.h"

namespace sigma1::cpu {
namespace {

KernelCall call(bool grad, int64_t batch, int64_t time, int64_t n_in, int64_t h) {
  std::vector<Tensor> inputs = normal_tensors({{batch, time, n_in}, {n_in + h, 2, h}, {2, h}, {h}});
  if (grad) inputs.push_back(normal_tensor({batch, time, h}, "dy", 3));
  return {&recurrent_kernels()[grad ? 1 : 0], inputs, {{"weight_scale", 0.3}}};
}

TEST(RecurrentKernels, GiveTheReference) {
  for (bool grad : {false, true}) {
    expect_reference(call(grad, 11, 19, 7, 5));  // blocks of the batch and a rest
    expect_reference(call(grad, 40, 3, 3, 18));
    expect_reference(call(grad, 1, 1, 1, 1));
  }
}

TEST(RecurrentKernels, ReadAndWriteFp16) {
  for (bool grad : {false, true}) {
    KernelCall each = call(grad, 5, 6, 7, 9);
    each.codec = &fp16_codec();
    expect_reference(each);
  }
}

TEST(RecurrentKernels, GiveTheSameBitsOnAnyThreads) {
  for (bool grad : {false, true}) expect_same_on_any_threads(call(grad, 11, 19, 7, 5));
}

}  // namespace
}  // namespace sigma1::cpu
